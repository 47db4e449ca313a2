"""``worker``: a worker process from end to end, with jobs that do nothing and history kept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from django_pgjobs.store.connecting import connect

from .consumers import consumers
from .context import Context
from .database import our_database
from .peers.probe import VARIABLE, read_waits
from .processes import python, running
from .report import percentile
from .rows import analyze, clear, fill

#: Options of the command, and keys of PGJOBS that differ from their defaults. Where the name
#: begins with "async", jobs are coroutine functions.
VARIANTS: Final[Sequence[tuple[str, Sequence[str], dict[str, Any]]]] = (
    ("defaults", (), {}),
    ("1 thread", ("--concurrency=1",), {}),
    ("batch 100", (), {"CLAIM_BATCH_SIZE": 100}),
    ("batch 500", (), {"CLAIM_BATCH_SIZE": 500}),
    ("1 thread, batch 500", ("--concurrency=1",), {"CLAIM_BATCH_SIZE": 500}),
    ("async", (), {}),
    ("async, batch 500", (), {"CLAIM_BATCH_SIZE": 500}),
)


def run(context: Context) -> None:
    """Measure, print and keep throughput and latency."""
    with (
        our_database(context.server_url, "worker") as url,
        connect("default", "benchmark") as connection,
    ):
        connection.execute("SET statement_timeout = 0")
        _measure_throughput(context, connection, url)
        for row in _measure_latency(context):
            context.report.add("worker_latency", row)
    context.report.print_table(
        "worker",
        "worker: jobs/s of one process, jobs that do nothing (ratio: to a loop that only claims "
        "and completes)",
        ["how", "jobs/s", "ratio"],
    )
    context.report.print_table(
        "worker_latency",
        "worker: until the first line of the handler, worker idle, one job after another",
        ["from", "p50 ms", "p99 ms", "max ms", "jobs"],
    )


def _measure_throughput(context: Context, connection: psycopg.Connection[Any], url: str) -> None:
    jobs = context.pick(60_000, 15_000)
    rates: dict[str, list[float]] = {"claim and complete only": []}
    rates |= {name: [] for name, _, _ in VARIANTS}
    for _ in range(context.pick(3, 2)):
        _load(connection, jobs)
        rates["claim and complete only"].append(_protocol_rate(url, jobs))
        for name, options, settings in VARIANTS:
            _load(connection, jobs, is_async=name.startswith("async"))
            with worker(*options, settings=settings):
                rates[name].append(finished_rate(connection, jobs, at_most=60))
    base = rates["claim and complete only"]
    for name, values in rates.items():
        ratio = median(mine / alone for mine, alone in zip(values, base, strict=True))
        context.report.add("worker", {"how": name, "jobs/s": median(values), "ratio": ratio})


def _load(connection: psycopg.Connection[Any], jobs: int, *, is_async: bool = False) -> None:
    clear(connection)
    fill(connection, jobs)
    connection.execute("UPDATE jobs_active SET payload = '{}'")
    if is_async:
        connection.execute(
            "UPDATE jobs_active SET job_name = 'benchmarks.jobs.nothing_async', "
            "queue_name = 'async'"
        )
    analyze(connection)
    connection.execute("CHECKPOINT")


def _protocol_rate(url: str, jobs: int) -> float:
    # The largest claims of the variants: more is not to be had of one connection.
    with consumers(1, batch=500, url=url) as group:
        until = monotonic() + 60
        while group.jobs < jobs and monotonic() < until and group.are_alive:
            sleep(0.02)
        group.stop()
    return group.rate


@contextmanager
def worker(
    *options: str, settings: dict[str, Any] | None = None, waits: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a worker of the database in DATABASE_URL as long as the block lasts.

    Args:
        options: of the command.
        settings: of PGJOBS.
        waits: where handlers note how long their jobs waited.
    """
    environment = {
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        "BENCHMARK_PGJOBS": json.dumps(settings or {}),
        VARIABLE: str(waits or ""),
    }
    command = python("-m", "django", "pgjobs_worker", *options)
    with running(command, environment=environment) as child:
        yield child


def finished_rate(connection: psycopg.Connection[Any], jobs: int, *, at_most: float) -> float:
    """Return the jobs a second of a worker, from its first to its last completion.

    Args:
        connection: where history is.
        jobs: how many there are.
        at_most: seconds to wait for them.
    """
    until = monotonic() + at_most
    while monotonic() < until and _left(connection):
        sleep(0.1)
    cursor = connection.execute(
        "SELECT count(*), extract(epoch FROM max(completed_at) - min(completed_at))::float8 "
        "FROM jobs_completed"
    )
    ((done, seconds),) = cursor.fetchall()
    assert done == jobs or monotonic() >= until
    return done / seconds if seconds else 0.0


def _left(connection: psycopg.Connection[Any]) -> bool:
    return bool(connection.execute("SELECT FROM jobs_active LIMIT 1").fetchall())


def _measure_latency(context: Context) -> Iterator[dict[str, Any]]:
    from .jobs import nothing, stamp  # noqa: PLC0415

    random = Random(1)
    enqueueing = []
    with TemporaryDirectory() as directory:
        waits = Path(directory) / "waits"
        with worker(waits=waits):
            sleep(3)
            # Connects, and is not among those measured.
            nothing.enqueue()
            sleep(1)
            for _ in range(context.pick(200, 40)):
                sent_at = monotonic()
                stamp.enqueue(sent_at=sent_at)
                enqueueing.append(monotonic() - sent_at)
                sleep(random.uniform(0.2, 0.6))
            sleep(2)
        found = read_waits(waits)
    # Each has begun long before the next is sent, so they are noted in the same order.
    committed = [wait - took for wait, took in zip(found, enqueueing, strict=True)]
    for since, seconds in (
        ("the call of enqueue", found),
        ("its return, committed", committed),
    ):
        waits_ms = [wait * 1000 for wait in seconds]
        yield {
            "from": since,
            "p50 ms": percentile(waits_ms, 50),
            "p99 ms": percentile(waits_ms, 99),
            "max ms": max(waits_ms),
            "jobs": len(waits_ms),
        }
