"""Reap, expire, and keep presence and leadership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..states import JobStatus
from .execute import Executor, JobId, WorkerId, execute, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class ReapedAttempt:
    """An attempt whose lease had expired, and its job's new status."""

    id: JobId
    job_name: str
    queue_name: str
    worker_id: WorkerId
    attempt: int
    status: JobStatus


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The server's clock and for how long it has been up."""

    now: datetime
    uptime: timedelta


def reap_leases(
    connection: Executor,
    *,
    limit: int,
    backoff_base: timedelta,
    backoff_cap: timedelta,
    now: datetime | None = None,
) -> list[ReapedAttempt]:
    """End attempts whose lease has expired. See sql/maintain/reap_leases.sql."""
    params = {
        "limit": limit,
        "backoff_base": backoff_base,
        "backoff_cap": backoff_cap,
        "now": now,
    }
    return fetch_rows(connection, "maintain/reap_leases", params, ReapedAttempt)


def grant_grace(
    connection: Executor, *, grace: timedelta, now: datetime | None = None
) -> list[JobId]:
    """Give every running lease at least ``grace``. See sql/maintain/grant_grace.sql."""
    return fetch_values(connection, "maintain/grant_grace", {"grace": grace, "now": now})


def read_clock(connection: Executor) -> ServerClock:
    """Return the server's clock. See sql/maintain/read_clock.sql."""
    (clock,) = fetch_rows(connection, "maintain/read_clock", {}, ServerClock)
    return clock


def expire_jobs(connection: Executor, *, limit: int, now: datetime | None = None) -> list[JobId]:
    """Cancel jobs not started in time. See sql/maintain/expire_jobs.sql."""
    return fetch_values(connection, "maintain/expire_jobs", {"limit": limit, "now": now})


def take_leadership(connection: Executor, *, name: str, leader_id: str, term: timedelta) -> bool:
    """Become or stay the leader; say whether. See sql/maintain/take_leadership.sql."""
    params = {"name": name, "leader_id": leader_id, "term": term}
    return bool(fetch_values(connection, "maintain/take_leadership", params))


def resign_leadership(connection: Executor, *, name: str, leader_id: str) -> None:
    """Let somebody else lead at once. See sql/maintain/resign_leadership.sql."""
    execute(connection, "maintain/resign_leadership", {"name": name, "leader_id": leader_id})


def record_worker(
    connection: Executor,
    *,
    worker_id: WorkerId,
    hostname: str,
    pid: int,
    queues: Sequence[str],
    concurrency: int,
    running: int,
    channel: str | None = None,
) -> None:
    """Say that a worker is alive. See sql/maintain/record_worker.sql."""
    params = {
        "worker_id": worker_id,
        "hostname": hostname,
        "pid": pid,
        "queues": list(queues),
        "concurrency": concurrency,
        "running": running,
        "channel": channel,
    }
    execute(connection, "maintain/record_worker", params)


def forget_worker(connection: Executor, *, worker_id: WorkerId) -> None:
    """A worker has stopped in good order. See sql/maintain/forget_worker.sql."""
    execute(connection, "maintain/forget_worker", {"worker_id": worker_id})


def forget_lost_workers(connection: Executor, *, silence: timedelta) -> list[WorkerId]:
    """Drop workers not heard of. See sql/maintain/forget_lost_workers.sql."""
    return fetch_values(connection, "maintain/forget_lost_workers", {"silence": silence})
