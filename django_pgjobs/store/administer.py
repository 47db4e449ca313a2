"""What operators do to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..states import JobStatus
from .execute import Executor, JobId, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """A job that was cancelled, or whose worker was asked to stop (still running)."""

    id: JobId
    status: JobStatus


@dataclass(frozen=True, slots=True)
class RedrivenJob:
    """A dead or cancelled job; ``is_redriven`` is False when its key is taken."""

    id: JobId
    queue_name: str
    is_redriven: bool


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """A part of the jobs, and those in it that match.

    Attributes:
        ids: of those that match, ascending.
        last_id: up to which was looked; None when there was nothing to look at.
        examined: how many rows.
    """

    ids: list[JobId]
    last_id: JobId | None
    examined: int


def cancel_jobs(connection: Executor, ids: Sequence[JobId], *, reason: str) -> list[CancelledJob]:
    """Cancel jobs, or ask their workers to. See sql/administer/cancel_jobs.sql."""
    params = {"ids": list(ids), "reason": reason}
    return fetch_rows(connection, "administer/cancel_jobs", params, CancelledJob)


def redrive_jobs(connection: Executor, ids: Sequence[JobId]) -> list[RedrivenJob]:
    """Make dead and cancelled jobs pending again. See sql/administer/redrive_jobs.sql."""
    return fetch_rows(connection, "administer/redrive_jobs", {"ids": list(ids)}, RedrivenJob)


def find_unfinished_jobs(
    connection: Executor,
    *,
    after_id: int,
    until_id: int,
    limit: int,
    job_name: str | None,
    queue: str | None,
    tenant_id: int | None,
    status: JobStatus | None,
    since: datetime | None,
    until: datetime | None,
) -> FoundJobs:
    """Look through some unfinished jobs. See sql/administer/find_unfinished_jobs.sql."""
    params = {
        "after_id": after_id,
        "until_id": until_id,
        "limit": limit,
        "job_name": job_name,
        "queue": queue,
        "tenant_id": tenant_id,
        "status": None if status is None else status.value,
        "since": since,
        "until": until,
    }
    (found,) = fetch_rows(connection, "administer/find_unfinished_jobs", params, FoundJobs)
    return found


def find_unsuccessful_jobs(
    connection: Executor,
    *,
    after_id: int,
    until_id: int,
    limit: int,
    status: JobStatus,
    job_name: str | None,
    queue: str | None,
    tenant_id: int | None,
    fingerprint: str | None,
    since: datetime | None,
    until: datetime | None,
) -> FoundJobs:
    """Look through dead or cancelled jobs. See sql/administer/find_unsuccessful_jobs.sql."""
    params = {
        "after_id": after_id,
        "until_id": until_id,
        "limit": limit,
        "status": status.value,
        "job_name": job_name,
        "queue": queue,
        "tenant_id": tenant_id,
        "fingerprint": fingerprint,
        "since": since,
        "until": until,
    }
    (found,) = fetch_rows(connection, "administer/find_unsuccessful_jobs", params, FoundJobs)
    return found


def read_last_id(connection: Executor) -> JobId:
    """Return how far the ids of jobs have come. See sql/administer/read_last_id.sql."""
    (last_id,) = fetch_values(connection, "administer/read_last_id", {})
    return JobId(last_id)
