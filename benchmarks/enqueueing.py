"""``enqueue``: how fast jobs are written, through Django, compared with bare INSERTs."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, Final

import psycopg
from django.db import connection as django_connection
from django.db import transaction

from django_pgjobs import enqueue_many
from django_pgjobs.producer import enqueueing
from django_pgjobs.store.connecting import connect

from .context import Context
from .database import our_database
from .rows import clear

#: What a bare INSERT of our columns would be, with nothing checked and nothing returned.
_BARE_ONE: Final = """
INSERT INTO jobs_active (
    epoch, created_at, scheduled_at, status, job_name, queue_name, payload
)
VALUES (1, now(), now(), 'pending', %s, %s, %s)
"""

_BARE_MANY: Final = """
INSERT INTO jobs_active (
    epoch, created_at, scheduled_at, status, job_name, queue_name, payload
)
SELECT 1, now(), now(), 'pending', 'benchmarks.jobs.nothing', 'default', payload
FROM unnest(%s::jsonb[]) AS payload
"""

_NEVER: Final = 10**9


def run(context: Context) -> None:
    """Measure, print and keep rates of single enqueues and of bulks."""
    with (
        our_database(context.server_url, "enqueue"),
        connect("default", "benchmark") as connection,
    ):
        _measure_single(context, connection)
        for count in context.pick((10, 100, 300, 500, 1_000, 10_000, 100_000), (10, 500, 10_000)):
            context.report.add("enqueue_many", _measure_many(context, connection, count))
    context.report.print_table(
        "enqueue",
        "enqueue: one job a transaction, 1 client (ratio: to the bare INSERT by Django)",
        ["how", "commits/s", "ratio"],
    )
    context.report.print_table(
        "enqueue_many",
        "enqueue_many: rows/s of one transaction, arguments encoded "
        f"(COPY from {enqueueing.COPY_FROM:,} rows on)",
        ["rows", "INSERT", "COPY", "COPY/INSERT", "as chosen", "bare INSERT", "ratio"],
    )


def _measure_single(context: Context, connection: psycopg.Connection[Any]) -> None:
    # Once django.setup() has been called.
    from .jobs import nothing  # noqa: PLC0415

    arguments = ["benchmarks.jobs.nothing", "default", "{}"]

    def by_django() -> None:
        with django_connection.cursor() as cursor:
            cursor.execute(_BARE_ONE, arguments)

    ways: dict[str, Callable[[], object]] = {
        "bare INSERT, Django cursor": by_django,
        "bare INSERT, psycopg prepared": lambda: connection.execute(_BARE_ONE, arguments),
        "enqueue()": nothing.enqueue,
        "enqueue() in atomic()": transaction.atomic(nothing.enqueue),
    }
    rates: dict[str, list[float]] = {how: [] for how in ways}
    for _ in range(context.pick(10, 4)):
        clear(connection)
        for how, way in ways.items():
            rates[how].append(_rate(way, seconds=context.pick(1.0, 0.4)))
    base = rates["bare INSERT, Django cursor"]
    for how, values in rates.items():
        ratio = median(mine / bare for mine, bare in zip(values, base, strict=True))
        context.report.add("enqueue", {"how": how, "commits/s": median(values), "ratio": ratio})


def _rate(way: Callable[[], object], *, seconds: float) -> float:
    began, count = perf_counter(), 0
    while perf_counter() - began < seconds:
        way()
        count += 1
    return count / (perf_counter() - began)


def _measure_many(
    context: Context, connection: psycopg.Connection[Any], count: int
) -> dict[str, Any]:
    rounds = max(3, context.pick(20_000, 5_000) // count)
    rates: dict[str, list[float]] = {"INSERT": [], "COPY": [], "bare INSERT": []}
    for _ in range(min(rounds, 200)):
        for way, seconds in _each_way(connection, count).items():
            rates[way].append(count / seconds)
    clear(connection)
    insert, copy, bare = (median(rates[way]) for way in ("INSERT", "COPY", "bare INSERT"))
    chosen = copy if count >= enqueueing.COPY_FROM else insert
    return {
        "rows": count,
        "INSERT": insert,
        "COPY": copy,
        "COPY/INSERT": copy / insert,
        "as chosen": chosen,
        "bare INSERT": bare,
        "ratio": chosen / bare,
    }


def _each_way(connection: psycopg.Connection[Any], count: int) -> dict[str, float]:
    bare = [f'{{"number": {number}}}' for number in range(count)]
    return {
        "INSERT": _seconds(lambda: _enqueue_many(count, copy_from=_NEVER)),
        "COPY": _seconds(lambda: _enqueue_many(count, copy_from=1)),
        "bare INSERT": _seconds(lambda: connection.execute(_BARE_MANY, [bare])),
    }


def _enqueue_many(count: int, *, copy_from: int) -> None:
    from .jobs import numbered  # noqa: PLC0415

    chosen = enqueueing.COPY_FROM
    enqueueing.COPY_FROM = copy_from  # type: ignore[misc]
    try:
        enqueue_many(numbered.prepare(number=number) for number in range(count))
    finally:
        enqueueing.COPY_FROM = chosen  # type: ignore[misc]


def _seconds(act: Callable[[], object]) -> float:
    began = perf_counter()
    act()
    return perf_counter() - began
