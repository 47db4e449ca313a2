"""What operators do to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..states import JobStatus
from .execute import Executor, JobId, fetch_rows


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """A job that was cancelled, or whose worker was asked to stop (still running)."""

    id: JobId
    status: JobStatus


@dataclass(frozen=True, slots=True)
class RedrivenJob:
    """A dead or cancelled job; ``is_redriven`` is False when its key is taken."""

    id: JobId
    is_redriven: bool


def cancel_jobs(connection: Executor, ids: Sequence[JobId], *, reason: str) -> list[CancelledJob]:
    """Cancel jobs, or ask their workers to. See sql/administer/cancel_jobs.sql."""
    params = {"ids": list(ids), "reason": reason}
    return fetch_rows(connection, "administer/cancel_jobs", params, CancelledJob)


def redrive_jobs(connection: Executor, ids: Sequence[JobId]) -> list[RedrivenJob]:
    """Make dead and cancelled jobs pending again. See sql/administer/redrive_jobs.sql."""
    return fetch_rows(connection, "administer/redrive_jobs", {"ids": list(ids)}, RedrivenJob)
