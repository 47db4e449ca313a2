"""Check the invariants of the protocol on whatever a test has left in the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

LEDGER = """
CREATE SCHEMA IF NOT EXISTS ledger;
CREATE TABLE IF NOT EXISTS ledger.enqueued (job_id bigint NOT NULL, token text);
CREATE TABLE IF NOT EXISTS ledger.rolled_back (token text NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.executed (
    job_id bigint NOT NULL,
    fence_token bigint NOT NULL,
    event text NOT NULL CHECK (event IN ('start', 'end')),
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS ledger.cancelled (job_id bigint NOT NULL, generation integer NOT NULL);
TRUNCATE ledger.enqueued, ledger.rolled_back, ledger.executed, ledger.cancelled;
"""


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement that returns the rows violating a promise."""

    name: str
    query: str
    needs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and the first rows that show it."""

    name: str
    rows: list[tuple[Any, ...]]


@cache
def invariants() -> tuple[Invariant, ...]:
    """Return the invariants of ``invariants.sql``."""
    text = (Path(__file__).parent / "invariants.sql").read_text(encoding="utf-8")
    prelude, *blocks = re.split(r"(?m)^-- name: ", text)
    return tuple(_invariant(prelude, block) for block in blocks)


def _invariant(prelude: str, block: str) -> Invariant:
    title, _, body = block.partition("\n")
    needs = frozenset(re.findall(r"\((ledger|clock|quiet)\)", title))
    return Invariant(title.strip(), f"{prelude}\n{body}", needs)


def make_ledger(connection: psycopg.Connection[Any]) -> None:
    """Make the tables of the ledger, empty."""
    connection.execute(LEDGER)


def check_invariants(
    connection: psycopg.Connection[Any],
    *,
    ledger: bool = False,
    quiet: bool = False,
    clock: bool = True,
) -> list[Violation]:
    """Return what is violated.

    Args:
        connection: to the test database.
        ledger: producers and handlers kept a ledger, see ``make_ledger``.
        quiet: everything should have ended by now.
        clock: the server's clock has only gone forwards.
    """
    given = {"ledger": ledger, "quiet": quiet, "clock": clock}
    violations = []
    for invariant in invariants():
        if all(given[need] for need in invariant.needs):
            rows = connection.execute(invariant.query).fetchmany(3)
            if rows:
                violations.append(Violation(invariant.name, rows))
    return violations
