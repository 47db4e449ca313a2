"""End attempts and renew their leases, under the fence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..states import JobStatus, Outcome
from .arrays import bigints
from .execute import Executor, FenceToken, JobId, WorkerId, fetch_rows, run


# Not frozen: that takes three times as long to make, and there is one for each job.
@dataclass(slots=True)
class Success:
    """An attempt that succeeded. ``result`` is JSON text or None."""

    id: JobId
    fence_token: FenceToken
    result: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An attempt that did not succeed.

    Attributes:
        is_retryable: False makes a failed job dead at once.
        delay: until the next attempt; None for the backoff.
        backoff_base: of this job's backoff; None for the worker's.
        backoff_cap: of this job's backoff; None for the worker's.
        spread: longest further delay; the real one is random.
    """

    id: JobId
    fence_token: FenceToken
    outcome: Outcome
    is_retryable: bool = True
    delay: timedelta | None = None
    backoff_base: timedelta | None = None
    backoff_cap: timedelta | None = None
    spread: timedelta = timedelta(0)
    error_class: str | None = None
    error_message: str | None = None
    traceback: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class EndedJob:
    """The new status of a job whose attempt was recorded."""

    id: JobId
    status: JobStatus


@dataclass(frozen=True, slots=True)
class ResolvedAttempt:
    """Whether an attempt's own ending is on record; if not, its lease was lost."""

    id: JobId
    is_recorded: bool


@dataclass(frozen=True, slots=True)
class Renewal:
    """What the heartbeat heard about an attempt, renewed or not."""

    id: JobId
    fence_token: FenceToken
    is_owned: bool
    cancel_requested: bool


def complete_jobs(
    connection: Executor,
    successes: Sequence[Success],
    *,
    worker_id: WorkerId,
    now: datetime | None = None,
) -> dict[JobId, str]:
    """Record successes; return the new status of each job written.

    See sql/finish/complete_jobs.sql.
    """
    results = [success.result for success in successes]
    params = {
        "ids": bigints(success.id for success in successes),
        "fence_tokens": bigints(success.fence_token for success in successes),
        # What an array lacks is null.
        "results": results if any(results) else [],
        "worker_id": worker_id,
        "now": now,
    }
    return dict(run(connection, "finish/complete_jobs", params))


def end_attempts(
    connection: Executor,
    endings: Sequence[Ending],
    *,
    worker_id: WorkerId,
    backoff_base: timedelta,
    backoff_cap: timedelta,
    now: datetime | None = None,
) -> list[EndedJob]:
    """Record attempts that did not succeed. See sql/finish/end_attempts.sql.

    Args:
        connection: to the tables.
        endings: of the attempts.
        worker_id: their owner.
        backoff_base: where the ending has none.
        backoff_cap: where the ending has none.
        now: null for the server's clock.
    """
    params = {
        "ids": [ending.id for ending in endings],
        "fence_tokens": [ending.fence_token for ending in endings],
        "outcomes": [ending.outcome.value for ending in endings],
        "is_retryable": [ending.is_retryable for ending in endings],
        "delays": [ending.delay for ending in endings],
        "backoff_bases": [_or(ending.backoff_base, backoff_base) for ending in endings],
        "backoff_caps": [_or(ending.backoff_cap, backoff_cap) for ending in endings],
        "spreads": [ending.spread for ending in endings],
        "error_classes": [ending.error_class for ending in endings],
        "error_messages": [ending.error_message for ending in endings],
        "tracebacks": [ending.traceback for ending in endings],
        "fingerprints": [ending.fingerprint for ending in endings],
        "worker_id": worker_id,
        "now": now,
    }
    return fetch_rows(connection, "finish/end_attempts", params, EndedJob)


def _or(value: timedelta | None, default: timedelta) -> timedelta:
    # A base of zero is false, and means what it says.
    return default if value is None else value


def resolve_attempts(
    connection: Executor,
    attempts: Sequence[tuple[JobId, FenceToken]],
    *,
    worker_id: WorkerId,
) -> list[ResolvedAttempt]:
    """Tell lost answers from lost leases. See sql/finish/resolve_attempts.sql."""
    params = {
        "ids": [job_id for job_id, _ in attempts],
        "fence_tokens": [fence_token for _, fence_token in attempts],
        "worker_id": worker_id,
    }
    return fetch_rows(connection, "finish/resolve_attempts", params, ResolvedAttempt)


def renew_leases(
    connection: Executor,
    attempts: Sequence[tuple[JobId, FenceToken]],
    *,
    worker_id: WorkerId,
    lease: timedelta,
    stalled: Collection[FenceToken] = (),
    progress: Mapping[FenceToken, str] | None = None,
    now: datetime | None = None,
) -> list[Renewal]:
    """Extend leases. See sql/finish/renew_leases.sql.

    Args:
        connection: to the tables.
        attempts: of the worker.
        worker_id: their owner.
        lease: from now.
        stalled: those of them whose leases are left to expire.
        progress: what handlers have said about theirs, as JSON text.
        now: null for the server's clock.
    """
    progress = progress or {}
    params = {
        "ids": [job_id for job_id, _ in attempts],
        "fence_tokens": [fence_token for _, fence_token in attempts],
        "extends": [fence_token not in stalled for _, fence_token in attempts],
        "progress": [progress.get(fence_token) for _, fence_token in attempts],
        "worker_id": worker_id,
        "lease": lease,
        "now": now,
    }
    return fetch_rows(connection, "finish/renew_leases", params, Renewal)


def check_leases(
    connection: Executor,
    attempts: Sequence[tuple[JobId, FenceToken]],
    *,
    worker_id: WorkerId,
) -> list[Renewal]:
    """Return the attempts that are not wanted any more. See sql/finish/check_leases.sql."""
    params = {
        "ids": [job_id for job_id, _ in attempts],
        "fence_tokens": [fence_token for _, fence_token in attempts],
        "worker_id": worker_id,
    }
    return fetch_rows(connection, "finish/check_leases", params, Renewal)
