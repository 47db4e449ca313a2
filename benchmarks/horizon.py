"""``horizon``: throughput while a forgotten transaction holds back vacuum.

The same number of jobs goes through with the xmin horizon free, with it pinned, and with it
pinned and the epochs of the claim index moving on. Each variant has a database of its own, which
is what a horizon belongs to, and they take turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.store.connecting import connect

from .consumers import Consumers, consumers
from .context import Context
from .database import our_database
from .explaining import explain_claim_and_completion, sizes
from .repeating import repeating
from .rows import analyze, fill

GOAL: Final = 0.9
BATCH: Final = 100
CLAIMERS: Final = 2

#: Pending jobs in the bounded variants: about as many as this while the producer keeps up.
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


@dataclass(slots=True, kw_only=True)
class Lane:
    """One variant under way.

    Attributes:
        variant: what it is.
        url: of its database.
        connection: to it.
        pending: jobs enqueued and not completed.
        rates: jobs a second of each step so far.
    """

    variant: Variant
    url: str
    connection: psycopg.Connection[Any]
    pending: int = 0
    keeper: EpochKeeper = field(default_factory=EpochKeeper)
    rates: list[float] = field(default_factory=list)

    def step(self, jobs: int, *, at_most: float) -> None:
        """Put ``jobs`` through, unless it takes more than ``at_most`` seconds."""
        pause = self.keeper.interval.total_seconds()
        keeping = repeating(self.keep_epochs, self.url, pause=pause)
        with (
            keeping if self.variant.has_epochs else nullcontext(),
            consumers(CLAIMERS, batch=BATCH, url=self.url) as group,
        ):
            self._produce(group, jobs, until=monotonic() + at_most)
            group.stop()
        self.pending -= group.jobs
        self.rates.append(group.rate)

    def keep_epochs(self, connection: psycopg.Connection[Any]) -> None:
        """Do what maintenance does each second."""
        while self.keeper.run_once(connection, batch_size=_KEEPER_BATCH).is_full:
            pass

    def enqueue(self, count: int) -> None:
        """Add pending jobs."""
        fill(self.connection, count)
        self.pending += count

    def _produce(self, group: Consumers, jobs: int, *, until: float) -> None:
        while group.jobs < jobs and monotonic() < until and group.are_alive:
            if self.pending - group.jobs < BACKLOG:
                self.enqueue(BACKLOG)
            else:
                sleep(0.02)


def run(context: Context) -> None:
    """Measure every variant; print throughput by step, and what is left behind."""
    total = context.pick(1_000_000, 100_000)
    with ExitStack() as stack:
        lanes = [_begin(stack, context, variant, total) for variant in VARIANTS]
        for number in range(_STEPS):
            # In turn first, so that no lane always comes after the same one.
            for lane in lanes[number % len(lanes) :] + lanes[: number % len(lanes)]:
                lane.step(total // _STEPS, at_most=context.pick(60.0, 20.0))
            print(f"  step {number + 1} of {_STEPS}", flush=True)
        for lane in lanes:
            context.report.add("horizon", _row(lane))
    _print(context, total)


def _print(context: Context, total: int) -> None:
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


def _begin(stack: ExitStack, context: Context, variant: Variant, total: int) -> Lane:
    name = "".join(letter if letter.isalpha() else "_" for letter in variant.name)
    url = stack.enter_context(our_database(context.server_url, name))
    connection = stack.enter_context(connect("default", "benchmark"))
    connection.execute("SET statement_timeout = 0")
    lane = Lane(variant=variant, url=url, connection=connection)
    # Consumers stop a little late, so the whole is a little more.
    lane.enqueue(total * 11 // 10 if variant.is_whole else 2 * BACKLOG)
    analyze(connection)
    if variant.is_pinned:
        _pin_horizon(stack)
    return lane


def _pin_horizon(stack: ExitStack) -> None:
    forgotten = stack.enter_context(connect("default", "benchmark forgotten transaction"))
    forgotten.execute("SET idle_in_transaction_session_timeout = 0")
    stack.enter_context(forgotten.transaction())
    forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    forgotten.execute("SELECT FROM jobs_active LIMIT 1")


def _row(lane: Lane) -> dict[str, Any]:
    ((epochs,),) = lane.connection.execute("SELECT last_value - 1 FROM jobs_epoch").fetchall()
    fill(lane.connection, BACKLOG)
    return {
        "variant": lane.variant.name,
        **{str(number): rate for number, rate in enumerate(lane.rates, start=1)},
        "last/first": lane.rates[-1] / lane.rates[0],
        "epochs": epochs,
        **explain_claim_and_completion(lane.connection, BATCH),
        **sizes(lane.connection),
    }
