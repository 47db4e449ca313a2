"""``listeners``: what it costs a producer that many workers listen.

The same enqueue, by several producers at once, with notifications and without, in turns.
NOTIFY makes commits wait for each other, so one producer alone would not show its price. The
workers are busy, each with a job that does not end, or idle, and then take what is enqueued.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from statistics import median
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from django_pgjobs.store.connecting import connect

from .context import Context
from .database import our_database
from .processes import python, running
from .worker import worker

GOAL: Final = 0.85
WORKERS: Final = 20
PRODUCERS: Final = 4

_PATIENCE: Final = 120.0


def run(context: Context) -> None:
    """Measure, print and keep the rates beside busy workers, and beside idle ones."""
    with (
        our_database(context.server_url, "listeners"),
        connect("default", "benchmark") as connection,
        worker(f"--processes={WORKERS}", "--concurrency=1"),
    ):
        _wait_for(
            connection, WORKERS, "SELECT count(*) FROM job_workers WHERE idle_since IS NOT NULL"
        )
        _measure(context, connection, "idle")
        _occupy(connection)
        _measure(context, connection, "busy")
    context.report.print_table(
        "listeners",
        f"listeners: enqueue() by {PRODUCERS} producers beside {WORKERS} listening workers, "
        f"one job a transaction (goal while they are busy: ratio ≥ {GOAL})",
        ["workers", "commits/s without NOTIFY", "commits/s", "ratio"],
    )


def _occupy(connection: psycopg.Connection[Any]) -> None:
    from .jobs import hold  # noqa: PLC0415

    for _ in range(WORKERS):
        hold.enqueue()
    running = "status = 'running' AND job_name LIKE '%.hold'"
    _wait_for(connection, WORKERS, f"SELECT count(*) FROM jobs_active WHERE {running}")
    _wait_for(
        connection, 0, "SELECT count(*) FROM job_workers WHERE 'default' = ANY (idle_queues)"
    )


def _wait_for(connection: psycopg.Connection[Any], count: int, query: str) -> None:
    until = monotonic() + _PATIENCE
    while connection.execute(query).fetchall() != [(count,)]:
        assert monotonic() < until, f"In vain: {query}"
        sleep(0.1)


def _measure(context: Context, connection: psycopg.Connection[Any], workers: str) -> None:
    with ExitStack() as stack:
        producers = [
            stack.enter_context(
                running(python("-m", "benchmarks.producer"), output=subprocess.PIPE)
            )
            for _ in range(PRODUCERS)
        ]
        for producer in producers:
            assert _answer(producer) == "ready"
        seconds = context.pick(1.0, 0.5)
        silent, told = [], []
        for number in range(context.pick(12, 4)):
            pair = (_rate(producers, "false", seconds), _rate(producers, "true", seconds))
            if number:
                # The first warms up.
                silent.append(pair[0])
                told.append(pair[1])
            connection.execute("DELETE FROM jobs_active WHERE status = 'pending'")
    row = {
        "workers": workers,
        "commits/s without NOTIFY": median(silent),
        "commits/s": median(told),
        "ratio": median(mine / other for mine, other in zip(told, silent, strict=True)),
    }
    context.report.add("listeners", row)


def _rate(producers: list[subprocess.Popen[str]], listen: str, seconds: float) -> float:
    for producer in producers:
        assert producer.stdin is not None
        producer.stdin.write(f"{listen} {seconds}\n")
        producer.stdin.flush()
    return sum(int(_answer(producer)) for producer in producers) / seconds


def _answer(producer: subprocess.Popen[str]) -> str:
    assert producer.stdout is not None
    return producer.stdout.readline().strip()
