"""What machines want to know about the queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from .execute import Executor, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class QueueState:
    """How a queue stands. ``pending`` is a bounded count."""

    queue_name: str
    is_paused: bool
    pending: int
    running: int
    oldest_pending_age: timedelta | None


@dataclass(frozen=True, slots=True)
class Vitals:
    """Whether everything that has to work is at work.

    Attributes:
        workers: heard of lately.
        leader_id: of maintenance, or None when nobody leads.
        expired_leases: that have not been reaped.
        overdue: waiting jobs that should have been staged; a bounded count.
        strays: history rows without a partition of their day; a bounded count.
    """

    workers: int
    leader_id: str | None
    expired_leases: int
    overdue: int
    strays: int


def count_pending(connection: Executor, *, limit: int) -> int:
    """Return how many jobs are pending, at most ``limit``. See sql/observe/count_pending.sql."""
    (pending,) = fetch_values(connection, "observe/count_pending", {"limit": limit})
    return int(pending)


def read_queues(connection: Executor, *, limit: int) -> list[QueueState]:
    """Return how each queue stands. See sql/observe/read_queues.sql."""
    return fetch_rows(connection, "observe/read_queues", {"limit": limit}, QueueState)


def read_vitals(connection: Executor, *, silence: timedelta) -> Vitals:
    """Return whether everything is at work. See sql/observe/read_vitals.sql."""
    (vitals,) = fetch_rows(connection, "observe/read_vitals", {"silence": silence}, Vitals)
    return vitals
