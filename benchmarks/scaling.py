"""``scaling``: how long claims take as tenants, backlog, future jobs and claimers grow."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any, Final

import psycopg

from django_pgjobs.store.connecting import connect

from .consumers import Consumers, consumers
from .context import Context
from .database import our_database
from .report import percentile
from .rows import analyze, clear, fill, fill_future

GOAL_MS: Final = 50
BATCH: Final = 100

#: Seconds after which no further cell is begun.
_AT_MOST: Final = 13 * 60.0


def run(context: Context) -> None:
    """Measure, print and keep every cell of the grid."""
    many = context.pick(1_000_000, 100_000)
    until = monotonic() + _AT_MOST
    with (
        our_database(context.server_url, "scaling") as url,
        connect("default", "benchmark") as connection,
    ):
        connection.execute("SET statement_timeout = 0")
        # The largest first: where time is short, the small ones are left out.
        for tenants in context.pick((10_000, 1_000, 10, 1), (10_000, 1)):
            for future in (0, many):
                clear(connection)
                if future and monotonic() < until:
                    fill_future(connection, future, tenants=tenants)
                for pending in (context.pick(60_000, 20_000), many):
                    cell = {"tenants": tenants, "future": future, "pending": pending}
                    if monotonic() < until:
                        _measure_cell(context, url, connection, cell)
                    else:
                        print(f"  left out, for want of time: {cell}", flush=True)
    _print(context)


def _print(context: Context) -> None:
    context.report.print_table(
        "scaling",
        f"scaling: claim and completion, batch {BATCH}, each claimer a process "
        f"(goal: claim p99 < {GOAL_MS} ms with most of everything)",
        [
            "tenants", "future", "pending", "claimers", "jobs/s", "claim p50 ms",
            "claim p99 ms", "finish p50 ms", "finish p99 ms", "claims", "empty",
        ],
    )  # fmt: skip


def _measure_cell(
    context: Context, url: str, connection: psycopg.Connection[Any], cell: dict[str, int]
) -> None:
    for claimers in (1, 2, 4):
        _top_up(connection, cell["pending"], cell["tenants"])
        figures = _measure(url, claimers, seconds=context.pick(3.0, 1.5))
        context.report.add("scaling", cell | {"claimers": claimers} | figures)


def _top_up(connection: psycopg.Connection[Any], pending: int, tenants: int) -> None:
    cursor = connection.execute("SELECT count(*) FROM jobs_active WHERE status = 'pending'")
    ((there,),) = cursor.fetchall()
    fill(connection, pending - there, tenants=tenants)
    analyze(connection)
    # So that no cell pays for the load before it.
    connection.execute("CHECKPOINT")


def _measure(url: str, claimers: int, *, seconds: float) -> dict[str, Any]:
    with consumers(claimers, batch=BATCH, url=url) as group:
        sleep(seconds)
        group.stop()
    return _row(group)


def _row(group: Consumers) -> dict[str, Any]:
    claims = [claim for progress in group.progress for claim in progress.claims]
    finishes = [finish for progress in group.progress for finish in progress.finishes]
    return {
        "jobs/s": group.rate,
        "claim p50 ms": percentile(claims, 50),
        "claim p99 ms": percentile(claims, 99),
        "finish p50 ms": percentile(finishes, 50),
        "finish p99 ms": percentile(finishes, 99),
        "claims": len(claims),
        "empty": sum(len(progress.empty) for progress in group.progress),
    }
