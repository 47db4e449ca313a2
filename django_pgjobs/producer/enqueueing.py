"""Put jobs into the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import get_settings
from ..definitions.definition import JobDefinition
from ..definitions.payloads import encode, encode_payload
from ..exceptions import EnqueueError
from ..store.enqueue import (
    NewJob,
    copy_jobs,
    enqueue_job,
    enqueue_job_and_wake,
    enqueue_jobs,
    find_unfinished,
    reserve_ids,
)
from ..store.execute import JobId
from .options import EnqueueOptions, aware
from .waking import note_woken, should_wake_for, wake_for

#: From this many jobs on, without keys, COPY is faster than an INSERT.
COPY_FROM: Final = 500

#: Jobs of one INSERT: bounds the size of a statement.
INSERT_AT_MOST: Final = 10_000

#: How often to look again when a key's holder has just finished.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job that was enqueued, or that holds the idempotency key.

    Attributes:
        id: of the job.
        name: of its definition.
        created: False when an unfinished job already had the idempotency key.
    """

    id: JobId
    name: str
    created: bool


def new_job(
    definition: JobDefinition, options: EnqueueOptions, arguments: dict[str, Any]
) -> NewJob:
    """Return the row of a job, validated and encoded.

    Raises:
        InvalidPayload: an argument cannot be stored.
        PayloadTooLarge: they take too much room.
    """
    conf = get_settings()
    expires = options.expires
    return NewJob(
        job_name=definition.name,
        queue=options.queue or definition.queue or conf.default_queue,
        tenant_id=options.tenant,
        priority=definition.priority if options.priority is None else options.priority,
        payload=encode_payload(arguments, max_bytes=conf.max_payload_bytes),
        payload_version=definition.payload_version,
        max_attempts=options.max_attempts or definition.max_attempts or conf.default_max_attempts,
        scheduled_at=aware(options.at) if options.at else None,
        delay=options.delay,
        expires_at=None if expires is None or isinstance(expires, timedelta) else aware(expires),
        expires_in=expires if isinstance(expires, timedelta) else None,
        idempotency_key=options.idempotency_key,
        meta=encode({"tags": options.tags}) if options.tags else None,
    )


def enqueue_one(job: NewJob) -> EnqueuedJob:
    """Write one job in the transaction that is open on the tables' database.

    Never aborts that transaction because of a taken key: it waits for the transaction
    that holds it and returns the job found then.

    Raises:
        EnqueueError: the job that holds the key was never found.
        django.db.OperationalError: a serialization failure. At REPEATABLE READ a key may be
            taken by a job that the transaction cannot see.
    """
    connection = connections[get_settings().database]
    if job.idempotency_key is None and should_wake_for(job) and _is_alone(connection):
        new_id, channels = enqueue_job_and_wake(connection, job)
        note_woken(job.queue, channels)
        return EnqueuedJob(new_id, job.job_name, created=True)
    job_id = enqueue_job(connection, job)
    if job_id is not None:
        wake_for(connection, [job])
        return EnqueuedJob(job_id, job.job_name, created=True)
    for _ in range(_TRIES):
        holders = find_unfinished(connection, [job])
        if holders:
            return EnqueuedJob(holders[0].id, job.job_name, created=False)
        # The holder finished between the two statements: the key is free.
        job_id = enqueue_job(connection, job)
        if job_id is not None:
            wake_for(connection, [job])
            return EnqueuedJob(job_id, job.job_name, created=True)
    raise _unresolved(job)


def _is_alone(connection: BaseDatabaseWrapper) -> bool:
    """Say whether a message of several statements would be a transaction of its own."""
    return (
        not connection.in_atomic_block
        and not getattr(connection.features, "uses_server_side_binding", False)
        and connection.get_autocommit()
    )


def enqueue_all(jobs: Iterable[NewJob]) -> list[EnqueuedJob]:
    """Write many jobs: all of them or, after an error, none.

    Raises:
        EnqueueError, django.db.OperationalError: as for :func:`enqueue_one`.
    """
    prepared = list(jobs)
    if not prepared:
        return []
    alias = get_settings().database
    with transaction.atomic(using=alias):
        connection = connections[alias]
        if len(prepared) >= COPY_FROM and not any(job.idempotency_key for job in prepared):
            # Django wraps what a cursor's own methods raise, and COPY is none of them.
            with connection.wrap_database_errors:
                ids = copy_jobs(connection, prepared)
            wake_for(connection, prepared)
            return [
                EnqueuedJob(job_id, job.job_name, created=True)
                for job_id, job in zip(ids, prepared, strict=True)
            ]
        insert = _insert if len(prepared) <= INSERT_AT_MOST else _insert_in_parts
        enqueued = insert(connection, prepared)
        wake_for(connection, prepared)
        return enqueued


def _insert_in_parts(connection: Any, jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
    """Write jobs in several statements, in the order of their keys.

    Two calls with common keys would deadlock in any other order. The ids and the due times are
    those of the order in which the jobs were given: they decide what is claimed first.
    """
    reserved = reserve_ids(connection, count=len(jobs))
    now = reserved[0].now
    order = sorted(range(len(jobs)), key=lambda index: _key(jobs[index], index))
    found: dict[int, EnqueuedJob] = {}
    for start in range(0, len(order), INSERT_AT_MOST):
        part = order[start : start + INSERT_AT_MOST]
        written = _insert(
            connection,
            [_due(jobs[index], now) for index in part],
            [reserved[index].id for index in part],
        )
        found.update(zip(part, written, strict=True))
    return [found[index] for index in range(len(jobs))]


def _key(job: NewJob, index: int) -> tuple[int, str, bool, str, int]:
    """Return what the statement sorts by. Code points are in the order of UTF-8's bytes."""
    key = job.idempotency_key
    return (job.tenant_id, job.job_name, key is None, key or "", index)


def _due(job: NewJob, now: datetime) -> NewJob:
    return replace(job, scheduled_at=job.scheduled_at or now + (job.delay or timedelta(0)))


def _insert(
    connection: Any, jobs: Sequence[NewJob], ids: Sequence[JobId] | None = None
) -> list[EnqueuedJob]:
    found: dict[int, EnqueuedJob] = {}
    missing = list(range(len(jobs)))
    for _ in range(_TRIES):
        batch = [jobs[index] for index in missing]
        own_ids = None if ids is None else [ids[index] for index in missing]
        for written in enqueue_jobs(connection, batch, own_ids):
            index = missing[written.position - 1]
            found[index] = EnqueuedJob(written.id, jobs[index].job_name, created=True)
        missing = [index for index in missing if index not in found]
        if not missing:
            return [found[index] for index in range(len(jobs))]
        for holder in find_unfinished(connection, [jobs[index] for index in missing]):
            index = missing[holder.position - 1]
            found[index] = EnqueuedJob(holder.id, jobs[index].job_name, created=False)
        missing = [index for index in missing if index not in found]
        if not missing:
            return [found[index] for index in range(len(jobs))]
    raise _unresolved(jobs[missing[0]])


def _unresolved(job: NewJob) -> EnqueueError:
    return EnqueueError(
        f"The idempotency key {job.idempotency_key!r} of {job.job_name} is taken, but no "
        f"unfinished job that holds it was found at {_TRIES} looks. Either such jobs come and "
        "go very fast, or a row security policy hides them."
    )
