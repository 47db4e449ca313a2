"""Start attempts, and make jobs claimable whose time has come."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import psycopg

from ..sql import statement
from .execute import Executor, FenceToken, JobId, WorkerId, fetch_rows, fetch_values, run
from .pooling import execute_together


@dataclass(slots=True)
class ClaimedJob:
    """A job whose attempt has begun.

    ``payload`` and ``meta`` are JSON text. ``losses`` is the number of processes that have been
    lost with the job in flight, since an attempt last ended in order.
    """

    id: JobId
    job_name: str
    tenant_id: int
    queue_name: str
    priority: int
    claim_order: int
    fence_token: FenceToken
    attempt: int
    max_attempts: int
    claims: int
    payload: str
    payload_version: int
    meta: str | None
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The jobs of one claim, most urgent first, and what its walk over the tenants saw.

    Attributes:
        jobs: what was claimed.
        tenants: how many tenants with pending jobs were walked.
        last_tenant: the last that took part; the next walk should begin behind it.
        carry: jobs that it may still take; then the next walk should begin with it.
        reach: the sum of the tenants' parts, up to where the next walk should begin.
        mean_weight: of the tenants walked that may start a job; None when there were none.
        sole_tenant: the only tenant with pending jobs, or None.
        is_truncated: there may be more tenants than were walked.
        capped: a capped tenant has pending jobs and its row was not locked.
        has_held: jobs of open breakers were in the way, and are blocked now.
    """

    jobs: list[ClaimedJob]
    tenants: int
    last_tenant: int
    carry: int
    reach: float
    mean_weight: float | None
    sole_tenant: int | None
    is_truncated: bool
    capped: bool
    has_held: bool


@dataclass(frozen=True, slots=True)
class UnansweredAttempt:
    """An attempt of a claim whose answer got lost."""

    id: JobId
    fence_token: FenceToken


@dataclass(frozen=True, slots=True)
class Staged:
    """What a staging did: rows made pending, and the time until the next is due."""

    staged: int
    next_due: timedelta | None


_JOB_COLUMNS = 14


def tenants_walked(limit: int) -> int:
    """Return how many tenants a claim of up to ``limit`` jobs walks at most.

    Some more than it needs, if it is small: not all can take part. Half as many, if it is large:
    a claim is only large where jobs are short, and with two jobs of each tenant it costs less,
    while the round over all of them still takes no time.
    """
    return max(16, min(limit, max(50, limit // 2)))


def claim_jobs(
    connection: Executor,
    *,
    queue: str,
    worker_id: WorkerId,
    limit: int,
    lease: timedelta,
    after_tenant: int,
    offset: float,
    default_weight: int,
    carry: int = 0,
    mean_weight: float | None = None,
    evenly: bool = False,
    now: datetime | None = None,
) -> Claim:
    """Start attempts on pending jobs of ``queue``, fairly. See sql/claim/claim_jobs.sql."""
    params = {
        "queue": queue,
        "worker_id": worker_id,
        "limit": limit,
        "walked": tenants_walked(limit),
        "lease": lease,
        "after_tenant": after_tenant,
        "carry": carry,
        "mean_weight": mean_weight or default_weight,
        "offset": offset,
        "default_weight": default_weight,
        "evenly": evenly,
        "now": now,
    }
    jobs, seen = _read(run(connection, "claim/claim_jobs", params))
    return Claim(jobs, *seen)


def claim_jobs_of_tenant(
    connection: Executor,
    *,
    queue: str,
    tenant_id: int,
    worker_id: WorkerId,
    limit: int,
    lease: timedelta,
    now: datetime | None = None,
) -> Claim:
    """Start attempts on jobs of one tenant. See sql/claim/claim_jobs_of_tenant.sql."""
    params = {
        "queue": queue,
        "tenant_id": tenant_id,
        "worker_id": worker_id,
        "limit": limit,
        "lease": lease,
        "now": now,
    }
    jobs, (is_alone, has_held) = _read(run(connection, "claim/claim_jobs_of_tenant", params))
    return Claim(
        jobs=jobs,
        tenants=1,
        last_tenant=tenant_id,
        carry=0,
        reach=0.0,
        mean_weight=None,
        sole_tenant=tenant_id if is_alone else None,
        is_truncated=not is_alone,
        capped=False,
        has_held=has_held,
    )


def claim_jobs_under_caps(
    connection: psycopg.Connection[Any],
    *,
    queue: str,
    worker_id: WorkerId,
    limit: int,
    lease: timedelta,
    after_tenant: int,
    offset: float,
    default_weight: int,
    carry: int = 0,
    mean_weight: float | None = None,
    evenly: bool = False,
    now: datetime | None = None,
) -> Claim:
    """Claim as ``claim_jobs`` does, with a part for capped tenants, in one round trip.

    Two statements in one transaction: the second one's snapshot is younger
    than the first one's locks, which is what makes the caps strict. The claim's
    ``capped`` says whether a capped tenant had jobs at all.
    """
    walk = {"queue": queue, "walked": tenants_walked(limit), "after_tenant": after_tenant}
    params = walk | {
        "limit": limit,
        "worker_id": worker_id,
        "lease": lease,
        "carry": carry,
        "mean_weight": mean_weight or default_weight,
        "offset": offset,
        "default_weight": default_weight,
        "evenly": evenly,
        "now": now,
    }
    ((locked, _),), rows = execute_together(
        connection,
        [
            (statement("claim/lock_capped_tenants"), walk),
            (statement("claim/claim_jobs"), params),
        ],
    )
    jobs, seen = _read(rows)
    claim = Claim(jobs, *seen)
    return replace(claim, capped=claim.capped or bool(locked))


def find_unanswered(
    connection: Executor, *, worker_id: WorkerId, fence_tokens: Sequence[FenceToken], limit: int
) -> list[UnansweredAttempt]:
    """Return a worker's attempts that it knows nothing of. See sql/claim/find_unanswered.sql."""
    params = {"worker_id": worker_id, "fence_tokens": list(fence_tokens), "limit": limit}
    return fetch_rows(connection, "claim/find_unanswered", params, UnansweredAttempt)


def list_queues(connection: Executor, *, limit: int) -> list[str]:
    """Return the queues that have pending jobs. See sql/claim/list_queues.sql."""
    return fetch_values(connection, "claim/list_queues", {"limit": limit})


def lock_capped_tenants(
    connection: Executor, *, queue: str, limit: int, after_tenant: int
) -> list[int]:
    """Lock the capped tenants that ``claim_jobs`` will walk, until the transaction ends.

    Returns:
        The tenants that were locked. See sql/claim/lock_capped_tenants.sql.
    """
    params = {"queue": queue, "walked": tenants_walked(limit), "after_tenant": after_tenant}
    ((locked, _),) = run(connection, "claim/lock_capped_tenants", params)
    return [int(tenant_id) for tenant_id in locked.split(",") if tenant_id]


def stage_jobs(connection: Executor, *, limit: int, now: datetime | None = None) -> Staged:
    """Make waiting jobs pending whose time has come. See sql/claim/stage_jobs.sql."""
    (staged,) = fetch_rows(connection, "claim/stage_jobs", {"limit": limit, "now": now}, Staged)
    return staged


def _read(rows: Iterable[tuple[Any, ...]]) -> tuple[list[ClaimedJob], tuple[Any, ...]]:
    """Return the jobs of a claim, and what its walk saw."""
    jobs, seen = [], ()
    for row in rows:
        if row[0] is None:
            seen = row[_JOB_COLUMNS:]
        else:
            jobs.append(ClaimedJob(*row[:_JOB_COLUMNS]))
    # RETURNING has no order.
    jobs.sort(key=_urgency)
    return jobs, seen


_urgency: Final = attrgetter("claim_order", "id")


def mark_idle(connection: Executor, *, worker_id: WorkerId, queues: Collection[str]) -> bool:
    """Say for which queues producers may wake a worker; return whether they can.

    See sql/claim/mark_idle.sql.
    """
    params = {"worker_id": worker_id, "queues": sorted(queues)}
    return bool(fetch_values(connection, "claim/mark_idle", params))
