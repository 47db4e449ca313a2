"""Write jobs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..sql import statement
from ..states import JobStatus
from .execute import Executor, JobId, fetch_rows, fetch_values

_COPY = (
    "/* pgjobs copy_jobs */ COPY jobs_active (id, epoch, tenant_id, created_at, scheduled_at, "
    "expires_at, status, max_attempts, priority, priority_worth, payload_version, job_name, "
    "queue_name, group_key, payload, meta) FROM STDIN"
)

_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that is about to be written: validated and encoded."""

    job_name: str
    queue: str
    tenant_id: int
    priority: int
    payload: str
    payload_version: int
    max_attempts: int
    scheduled_at: datetime | None = None
    delay: timedelta | None = None
    expires_at: datetime | None = None
    expires_in: timedelta | None = None
    idempotency_key: str | None = None
    group_key: str | None = None
    meta: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenJob:
    """The job at ``position`` (from 1) of a call has this id."""

    position: int
    id: JobId


@dataclass(frozen=True, slots=True)
class ReservedId:
    """An id for a row to be copied, with the server's epoch and clock."""

    id: JobId
    epoch: int
    microseconds: int

    @property
    def now(self) -> datetime:
        """The server's clock."""
        return _UNIX_EPOCH + timedelta(microseconds=self.microseconds)


@dataclass(frozen=True, slots=True)
class Aging:
    """What a step of priority is worth in a queue, in milliseconds of waiting."""

    queue_name: str
    priority_worth: int


#: What a step of priority is worth where priorities are strict: two thousand years.
STRICT: Final = 2**46


def enqueue_job(connection: Executor, job: NewJob) -> JobId | None:
    """Write one job; None when its key is taken. See sql/enqueue/enqueue_job.sql."""
    ids = fetch_values(connection, "enqueue/enqueue_job", _params(job))
    return ids[0] if ids else None


def enqueue_job_and_wake(connection: Executor, job: NewJob) -> tuple[JobId, list[str]]:
    """Write one job without a key, and notify a sleeping worker, in one message.

    Where no transaction is open, the two are one: PostgreSQL takes the statements of a message
    for a transaction, and has one commit to make durable. Two would take twice as long.
    See https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-MULTI-STATEMENT

    Args:
        connection: Django's, which puts parameters into the text itself.
        job: to write.

    Returns:
        Its id, and the channels that were notified.
    """
    names = ("enqueue/enqueue_job", "enqueue/wake_workers")
    with connection.cursor() as cursor:
        cursor.execute("\n;".join(map(statement, names)), {**_params(job), "count": 1})
        ((job_id,),) = cursor.fetchall()
        cursor.nextset()
        return job_id, [channel for (channel,) in cursor.fetchall()]


def _params(job: NewJob) -> dict[str, Any]:
    return {
        "job_name": job.job_name,
        "queue": job.queue,
        "tenant_id": job.tenant_id,
        "priority": job.priority,
        "payload": job.payload,
        "payload_version": job.payload_version,
        "max_attempts": job.max_attempts,
        "scheduled_at": job.scheduled_at,
        "delay": job.delay,
        "expires_at": job.expires_at,
        "expires_in": job.expires_in,
        "idempotency_key": job.idempotency_key,
        "group_key": job.group_key,
        "meta": job.meta,
    }


def enqueue_jobs(
    connection: Executor, jobs: Sequence[NewJob], ids: Sequence[JobId] | None = None
) -> list[WrittenJob]:
    """Write many jobs in one statement. See sql/enqueue/enqueue_jobs.sql."""
    params = {
        "ids": None if ids is None else list(ids),
        "job_names": [job.job_name for job in jobs],
        "queues": [job.queue for job in jobs],
        "tenant_ids": [job.tenant_id for job in jobs],
        "priorities": [job.priority for job in jobs],
        "payloads": [job.payload for job in jobs],
        "payload_versions": [job.payload_version for job in jobs],
        "max_attempts": [job.max_attempts for job in jobs],
        "scheduled_at": [job.scheduled_at for job in jobs],
        "delays": [job.delay for job in jobs],
        "expires_at": [job.expires_at for job in jobs],
        "expires_in": [job.expires_in for job in jobs],
        "idempotency_keys": [job.idempotency_key for job in jobs],
        "group_keys": [job.group_key for job in jobs],
        "metas": [job.meta for job in jobs],
    }
    return fetch_rows(connection, "enqueue/enqueue_jobs", params, WrittenJob)


def find_unfinished(connection: Executor, jobs: Sequence[NewJob]) -> list[WrittenJob]:
    """Return who holds the keys of ``jobs``. See sql/enqueue/find_unfinished.sql."""
    params = {
        "tenant_ids": [job.tenant_id for job in jobs],
        "job_names": [job.job_name for job in jobs],
        "idempotency_keys": [job.idempotency_key for job in jobs],
    }
    return fetch_rows(connection, "enqueue/find_unfinished", params, WrittenJob)


def reserve_ids(connection: Executor, *, count: int) -> list[ReservedId]:
    """Return ids for rows to be copied. See sql/enqueue/reserve_ids.sql."""
    return fetch_rows(connection, "enqueue/reserve_ids", {"count": count}, ReservedId)


def wake_workers(connection: Executor, *, queue: str, count: int) -> list[str]:
    """Notify some sleeping workers at commit. See sql/enqueue/wake_workers.sql."""
    return fetch_values(connection, "enqueue/wake_workers", {"queue": queue, "count": count})


def read_aging(connection: Executor) -> list[Aging]:
    """Return the queues whose priorities age. See sql/enqueue/read_aging.sql."""
    return fetch_rows(connection, "enqueue/read_aging", {}, Aging)


def copy_jobs(connection: Executor, jobs: Sequence[NewJob]) -> list[JobId]:
    """Write very many jobs by COPY, several times faster than an INSERT.

    COPY has no ON CONFLICT, so the jobs must have no idempotency keys. The caller has
    opened a transaction, or a failure half-way leaves nothing but unused ids.

    Returns:
        The ids, in the order of ``jobs``.
    """
    reserved = reserve_ids(connection, count=len(jobs))
    worth = {aging.queue_name: aging.priority_worth for aging in read_aging(connection)}
    # The same on each row, and costly to compute for each.
    now = reserved[0].now
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for place, job in zip(reserved, jobs, strict=True):
            copy.write_row(_copied_row(place, now, job, worth.get(job.queue, STRICT)))
    return [place.id for place in reserved]


def _copied_row(
    place: ReservedId, now: datetime, job: NewJob, priority_worth: int
) -> tuple[object, ...]:
    # The server's clock, as reserve_ids read it, decides what is due.
    due = job.scheduled_at or (now + job.delay if job.delay else now)
    expires_at = job.expires_at or (due + job.expires_in if job.expires_in else None)
    status = JobStatus.SCHEDULED if due > now else JobStatus.PENDING
    return (
        place.id,
        place.epoch,
        job.tenant_id,
        now,
        due,
        expires_at,
        status.value,
        job.max_attempts,
        job.priority,
        priority_worth,
        job.payload_version,
        job.job_name,
        job.queue,
        job.group_key,
        job.payload,
        job.meta,
    )
