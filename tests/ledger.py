"""What processes write down outside of the database, to check it by.

A line is written with one ``write`` to a file that is open for appending, so that it is there
whole or not at all, whatever becomes of the process.

::

    start 17 2 4711        a handler began the second claim of job 17, in process 4711
    end 17 2 4711          and has come to its end
    begun 5f0c             a transaction began to enqueue under a token
    intended 5f0c 17,18    it is about to commit two jobs
    committed 5f0c 17,18   it has; or rolled_back
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from django_pgjobs import JobContext

#: The file, for processes that the tests start.
VARIABLE = "PGJOBS_TEST_LEDGER"


@dataclass(frozen=True, slots=True)
class Noted:
    """A handler that began or came to its end."""

    job_id: int
    claim: int
    name: str
    pid: int


@dataclass(slots=True)
class Enqueue:
    """A transaction that enqueued under a token.

    Attributes:
        jobs: what it was about to commit.
        verdict: the last that was heard of it: begun, intended, committed or rolled_back.
    """

    jobs: tuple[int, ...] = ()
    verdict: str = "begun"


@dataclass(slots=True)
class Ledger:
    """What a ledger says."""

    events: list[Noted] = field(default_factory=list)
    enqueues: dict[str, Enqueue] = field(default_factory=dict)


def note(context: JobContext, event: str) -> None:
    """Write down that a handler began (``start``) or came to its end (``end``)."""
    write(f"{event} {context.id} {context.claims} {os.getpid()}")


def note_enqueue(verdict: str, token: str, jobs: Iterable[int] = ()) -> None:
    """Write down what became of a transaction that enqueues."""
    write(f"{verdict} {token} {','.join(map(str, jobs))}")


def write(line: str) -> None:
    """Add a line to the ledger of this process."""
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def read_ledger(path: Path) -> Ledger:
    """Return what a ledger says; nothing if there is none yet."""
    ledger = Ledger()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        match line.split():
            case [("start" | "end") as name, job_id, claim, pid]:
                ledger.events.append(Noted(int(job_id), int(claim), name, int(pid)))
            case [verdict, token, *ids]:
                enqueue = ledger.enqueues.setdefault(token, Enqueue())
                enqueue.verdict = verdict
                if ids:
                    enqueue.jobs = tuple(int(job_id) for job_id in ids[0].split(","))
    return ledger


def fill_executed(connection: psycopg.Connection[Any], events: Iterable[Noted]) -> None:
    """Fill ``ledger.executed`` of ``tests.invariants`` with what handlers wrote down.

    A claim that the tables do not know gets a token that they do not know.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE noted (job_id bigint, claim integer, event text) "
            "ON COMMIT DROP"
        )
        with cursor.copy("COPY noted FROM STDIN") as copy:
            for event in events:
                copy.write_row((event.job_id, event.claim, event.name))
        cursor.execute(
            """
            INSERT INTO ledger.executed (job_id, fence_token, event)
            SELECT noted.job_id,
                coalesce(attempts.fence_token, finished.fence_token, active.fence_token, -1),
                noted.event
            FROM noted
            LEFT JOIN job_attempts AS attempts
                ON attempts.job_id = noted.job_id AND attempts.claim = noted.claim
            LEFT JOIN jobs_completed AS finished
                ON finished.id = noted.job_id AND finished.claims = noted.claim
            LEFT JOIN jobs_active AS active
                ON active.id = noted.job_id AND active.claims = noted.claim
            """
        )


def fill_enqueued(
    connection: psycopg.Connection[Any], jobs: Iterable[int], rolled_back: Iterable[str] = ()
) -> None:
    """Fill ``ledger.enqueued`` and ``ledger.rolled_back`` of ``tests.invariants``."""
    with connection.cursor() as cursor:
        with cursor.copy("COPY ledger.enqueued (job_id) FROM STDIN") as copy:
            for job_id in jobs:
                copy.write_row((job_id,))
        with cursor.copy("COPY ledger.rolled_back (token) FROM STDIN") as copy:
            for token in rolled_back:
                copy.write_row((token,))
