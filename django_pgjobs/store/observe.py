"""What machines want to know about the queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from .execute import Executor, JobId, fetch_rows, fetch_values


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


@dataclass(frozen=True, slots=True)
class TableSize:
    """How many pages a table has, or a partition of the history."""

    name: str
    pages: int


@dataclass(frozen=True, slots=True)
class HeldJobs:
    """How many jobs a breaker holds; a bounded count."""

    name: str
    jobs: int


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Attempts that failed by errors of one kind.

    Attributes:
        fingerprint: of the kind.
        error_class: of the newest.
        count: attempts of late.
        jobs: how many different ones they were of.
        dead: jobs dead of it that have not been redriven, at most 10,000.
        first_seen: in all of the history.
        last_seen: end of the newest attempt.
        job_id: of the newest.
        job_name: of the newest.
        error_message: of the newest.
    """

    fingerprint: str
    error_class: str | None
    count: int
    jobs: int
    dead: int
    first_seen: datetime
    last_seen: datetime
    job_id: JobId
    job_name: str
    error_message: str | None


@dataclass(frozen=True, slots=True)
class ConnectionLimit:
    """How many connections the server, the database or the role may have, and has."""

    holder: str
    allowed: int
    in_use: int


def read_table_sizes(connection: Executor) -> list[TableSize]:
    """Return how large the tables of jobs are. See sql/observe/read_table_sizes.sql."""
    return fetch_rows(connection, "observe/read_table_sizes", {}, TableSize)


def read_connection_limits(connection: Executor) -> list[ConnectionLimit]:
    """Return what limits connections. See sql/observe/read_connection_limits.sql."""
    return fetch_rows(connection, "observe/read_connection_limits", {}, ConnectionLimit)


def read_backend(connection: Executor) -> int:
    """Return the process id of the server's end. See sql/observe/read_backend.sql."""
    (pid,) = fetch_values(connection, "observe/read_backend", {})
    return int(pid)


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


def count_held(connection: Executor, *, limit: int) -> list[HeldJobs]:
    """Return how many jobs each breaker holds. See sql/observe/count_held.sql."""
    return fetch_rows(connection, "observe/count_held", {"limit": limit}, HeldJobs)


def read_error_groups(
    connection: Executor, *, within: timedelta, job_name: str | None, limit: int
) -> list[ErrorGroup]:
    """Return the errors of late, each kind once. See sql/observe/read_error_groups.sql."""
    params = {"within": within, "job_name": job_name, "limit": limit}
    return fetch_rows(connection, "observe/read_error_groups", params, ErrorGroup)
