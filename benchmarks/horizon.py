"""``horizon``: throughput while a forgotten transaction holds back vacuum.

The same number of jobs goes through with the xmin horizon free, with it pinned, and with it
pinned and the epochs of the claim index moving on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.store.connecting import connect

from .consumers import Consumers, consumers
from .context import Context
from .database import our_database
from .explaining import explain_claim_and_completion, sizes
from .rows import analyze, clear, fill

GOAL: Final = 0.9
BATCH: Final = 100
CLAIMERS: Final = 2

#: Pending jobs in the bounded runs: never fewer than this while the producer keeps up.
BACKLOG: Final = 5_000

_STEPS: Final = 10

#: As the maintainer does.
_KEEPER_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Variant:
    """One way for the jobs to go through."""

    name: str
    is_pinned: bool
    has_epochs: bool
    is_whole: bool


VARIANTS: Final = tuple(
    Variant(f"{backlog}, {name}", is_pinned, has_epochs, backlog == "all pending")
    for backlog in ("bounded", "all pending")
    for name, is_pinned, has_epochs in (
        ("free", False, True),
        ("pinned", True, False),
        ("pinned, epochs", True, True),
    )
)


def run(context: Context) -> None:
    """Measure every variant; print throughput by step, and what is left behind."""
    total = context.pick(1_000_000, 100_000)
    with (
        our_database(context.server_url, "horizon"),
        connect("default", "benchmark") as connection,
    ):
        connection.execute("SET statement_timeout = 0")
        for variant in VARIANTS:
            row = _measure(connection, variant, total, at_most=context.pick(240.0, 40.0))
            context.report.add("horizon", row)
            print(f"  {variant.name}: {row['seconds']:.0f} s", flush=True)
    context.report.print_table(
        "horizon",
        f"horizon: jobs/s in each {total // _STEPS:,} of {total:,} jobs, {CLAIMERS} claimers, "
        f"batch {BATCH} (goal: last/first ≥ {GOAL} with epochs)",
        ["variant", *(str(step) for step in range(1, _STEPS + 1)), "last/first", "epochs"],
    )
    context.report.print_table(
        "horizon",
        "horizon: a claim and a completion of 100 jobs at the end of each run",
        [
            "variant", "claim ms", "claim buffers", "finish ms", "finish buffers", "heap MB",
            "claim index MB", "running index MB", "pkey MB",
        ],
    )  # fmt: skip


def _measure(
    connection: psycopg.Connection[Any], variant: Variant, total: int, *, at_most: float
) -> dict[str, Any]:
    clear(connection)
    fill(connection, total if variant.is_whole else BACKLOG)
    analyze(connection)
    connection.execute("CHECKPOINT")
    pin = _pinned_horizon() if variant.is_pinned else nullcontext()
    with pin, _epochs() if variant.has_epochs else nullcontext([0]) as moves:
        with consumers(CLAIMERS, batch=BATCH) as group:
            _produce(connection, group, 0 if variant.is_whole else total - BACKLOG, total, at_most)
            group.stop()
        if not variant.is_whole:
            fill(connection, BACKLOG)
        late = explain_claim_and_completion(connection, BATCH) if not variant.is_whole else {}
    return _row(variant, group, total) | {"epochs": moves[0]} | late | sizes(connection)


@contextmanager
def _pinned_horizon() -> Iterator[None]:
    with connect("default", "benchmark forgotten transaction") as forgotten:
        forgotten.execute("SET idle_in_transaction_session_timeout = 0")
        with forgotten.transaction():
            forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            forgotten.execute("SELECT FROM jobs_active LIMIT 1")
            yield


@contextmanager
def _epochs() -> Iterator[list[int]]:
    """Keep epochs as the maintainer does; yield a list of how many there were."""
    stopping, moves = threading.Event(), [0]
    thread = threading.Thread(target=_keep_epochs, args=(stopping, moves), daemon=True)
    thread.start()
    try:
        yield moves
    finally:
        stopping.set()
        thread.join()


def _keep_epochs(stopping: threading.Event, moves: list[int]) -> None:
    keeper = EpochKeeper()
    with connect("default", "benchmark epochs") as connection:
        first = _epoch(connection)
        while not stopping.wait(keeper.interval.total_seconds()):
            while keeper.run_once(connection, batch_size=_KEEPER_BATCH).is_full:
                pass
            moves[0] = _epoch(connection) - first


def _epoch(connection: psycopg.Connection[Any]) -> int:
    ((epoch,),) = connection.execute("SELECT last_value FROM jobs_epoch").fetchall()
    return int(epoch)


def _produce(
    connection: psycopg.Connection[Any],
    group: Consumers,
    count: int,
    total: int,
    at_most: float,
) -> None:
    """Keep the backlog up until ``count`` are enqueued; return when ``total`` are done."""
    until, enqueued = monotonic() + at_most, total - count
    while group.jobs < total and monotonic() < until and group.are_alive:
        if enqueued < total and enqueued - group.jobs < 2 * BACKLOG:
            chunk = min(BACKLOG, total - enqueued)
            fill(connection, chunk)
            enqueued += chunk
        else:
            sleep(0.02)


def _row(variant: Variant, group: Consumers, total: int) -> dict[str, Any]:
    rates = step_rates(group, total // _STEPS)
    return {
        "variant": variant.name,
        "jobs": group.jobs,
        "seconds": group.progress[-1].at - group.began_at,
        **{str(number): rate for number, rate in enumerate(rates, start=1)},
        "last/first": rates[-1] / rates[0] if len(rates) > 1 else None,
    }


def step_rates(group: Consumers, step: int) -> list[float]:
    """Return the jobs a second in each ``step`` jobs that were completed."""
    progress = sorted(group.progress, key=attrgetter("at"))
    reached = accumulate(line.jobs for line in progress)
    rates: list[float] = []
    began, done = group.began_at, 0
    for line, jobs in zip(progress, reached, strict=True):
        if jobs - done >= step:
            rates.append((jobs - done) / (line.at - began))
            began, done = line.at, jobs
    return rates
