"""Make history partitions ahead of time, and drop those past their retention."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import errors

from ..store.maintain import read_clock
from ..store.partitions import (
    PARTITIONED,
    Partition,
    create_partition,
    drop_partition,
    list_partitions,
)
from .service import Report

logger = logging.getLogger("django_pgjobs.maintenance")

#: How long completions may have to wait for a change of partitions.
LOCK_TIMEOUT: Final = timedelta(milliseconds=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioner:
    """Keeps the daily partitions of the history tables.

    Args:
        days_ahead: partitions to have beyond today's.
        retention: how long to keep history; None for ever.
        interval: between two runs.
    """

    days_ahead: int
    retention: timedelta | None
    interval: timedelta = timedelta(minutes=10)
    name: str = "partitioner"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Make and drop what is due. A lock that somebody holds is left for the next run."""
        now = read_clock(connection).now
        changed: list[str] = []
        for table in PARTITIONED:
            partitions = list_partitions(connection, table=table)
            for day in missing_days(partitions, now, self.days_ahead):
                changed += _make(connection, table, day)
            for partition in past_retention(partitions, now, self.retention):
                changed += _drop(connection, partition)
        return Report(touched=changed)


def missing_days(partitions: Sequence[Partition], now: datetime, days_ahead: int) -> list[date]:
    """Return the UTC days from today on that no partition covers.

    Args:
        partitions: there are.
        now: an aware datetime.
        days_ahead: days beyond today.
    """
    today = now.astimezone(UTC).date()
    days = [today + timedelta(days=number) for number in range(days_ahead + 1)]
    return [day for day in days if not any(_covers(partition, day) for partition in partitions)]


def past_retention(
    partitions: Sequence[Partition], now: datetime, retention: timedelta | None
) -> list[Partition]:
    """Return the partitions whose last row is older than ``retention``."""
    if retention is None:
        return []
    return [
        partition
        for partition in partitions
        if partition.ends_at is not None and partition.ends_at <= now - retention
    ]


def _covers(partition: Partition, day: date) -> bool:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = start + timedelta(days=1)
    begins_before_end = partition.starts_at is None or partition.starts_at < end
    ends_after_start = partition.ends_at is None or partition.ends_at > start
    return begins_before_end and ends_after_start


def _make(connection: psycopg.Connection[Any], table: str, day: date) -> list[str]:
    try:
        return [create_partition(connection, table=table, day=day, lock_timeout=LOCK_TIMEOUT)]
    except errors.LockNotAvailable:
        logger.info("The partition of %s for %s has to wait for a reader", table, day)
    except errors.DuplicateTable as error:
        logger.error(
            "The partition of %s for %s cannot be made: %s Attach or drop that table; until "
            "then its rows go to %s_default.",
            table,
            day,
            str(error).strip(),
            table,
        )
    return []


def _drop(connection: psycopg.Connection[Any], partition: Partition) -> list[str]:
    try:
        drop_partition(connection, partition, lock_timeout=LOCK_TIMEOUT)
    except errors.LockNotAvailable:
        logger.info("Dropping %s has to wait for a reader", partition.name)
        return []
    return [partition.name]
