"""Rows for tests: a factory for each model, and a function for each situation a job can be in.

The situations are what the statements would have written: their histories are complete,
so that ``tests.invariants`` holds for them.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import factory
from django.db import connections

from django_pgjobs.conf import get_settings
from django_pgjobs.models import (
    ActiveJob,
    Breaker,
    CompletedJob,
    CronSchedule,
    JobAttempt,
    QueueConfig,
    TenantConfig,
)
from django_pgjobs.states import JobStatus

WORKER = "worker-a"


def query_value(query):
    """Return the only value of ``query``, from the database of the tables."""
    with connections[get_settings().database].cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def server_now() -> datetime:
    """Return the server's clock: that of the machine of the tests may differ."""
    return query_value("SELECT clock_timestamp()")


def next_token() -> int:
    """Return a fence token that no claim will issue."""
    return query_value("SELECT nextval('jobs_fence') << 16")


def newest_epoch(status: JobStatus) -> int:
    """Return the epoch that a row of this status takes."""
    sequence = "jobs_running_epoch" if status == JobStatus.RUNNING else "jobs_epoch"
    return query_value(f"SELECT last_value FROM {sequence}")


class ActiveJobFactory(factory.django.DjangoModelFactory):
    """An unfinished job: pending, of no tenant, unless told otherwise."""

    class Meta:
        model = ActiveJob

    id = factory.LazyFunction(lambda: query_value("SELECT nextval('jobs_id')"))
    epoch = factory.LazyAttribute(lambda job: newest_epoch(job.status))
    created_at = factory.LazyFunction(server_now)
    scheduled_at = factory.SelfAttribute("created_at")
    status = JobStatus.PENDING
    job_name = "tests.noop"
    payload = factory.LazyFunction(dict)


class CompletedJobFactory(factory.django.DjangoModelFactory):
    """A finished job: completed at its first attempt, unless told otherwise."""

    class Meta:
        model = CompletedJob

    id = factory.LazyFunction(lambda: query_value("SELECT nextval('jobs_id')"))
    completed_at = factory.LazyFunction(server_now)
    created_at = factory.LazyAttribute(lambda job: job.completed_at - timedelta(minutes=2))
    scheduled_at = factory.SelfAttribute("created_at")
    started_at = factory.LazyAttribute(lambda job: job.completed_at - timedelta(minutes=1))
    locked_at = factory.SelfAttribute("started_at")
    locked_by = WORKER
    fence_token = factory.LazyFunction(next_token)
    status = JobStatus.COMPLETED
    attempt = 1
    claims = 1
    job_name = "tests.noop"
    payload = factory.LazyFunction(dict)


class JobAttemptFactory(factory.django.DjangoModelFactory):
    """An attempt that failed."""

    class Meta:
        model = JobAttempt

    fence_token = factory.LazyFunction(next_token)
    tenant_id = 0
    claim = 1
    generation = 0
    attempt = factory.SelfAttribute("claim")
    job_name = "tests.noop"
    queue_name = "default"
    worker_id = WORKER
    finished_at = factory.LazyFunction(server_now)
    started_at = factory.LazyAttribute(lambda row: row.finished_at - timedelta(seconds=1))
    outcome = "failed"


class QueueConfigFactory(factory.django.DjangoModelFactory):
    """The configuration of a queue."""

    class Meta:
        model = QueueConfig

    queue_name = "default"


class PausedQueueFactory(QueueConfigFactory):
    """A queue from which nothing is claimed."""

    paused = True
    paused_at = factory.LazyFunction(server_now)


class TenantConfigFactory(factory.django.DjangoModelFactory):
    """The configuration of a tenant."""

    class Meta:
        model = TenantConfig

    tenant_id = factory.Sequence(lambda number: number + 1)


class BreakerFactory(factory.django.DjangoModelFactory):
    """A closed breaker of one job: opens at half of four outcomes."""

    class Meta:
        model = Breaker

    name = "bank"
    job_names = factory.LazyFunction(lambda: ["tests.noop"])
    failure_ratio = 0.5
    minimum = 4
    period = timedelta(minutes=1)
    cooldown = timedelta(seconds=30)
    probes = 2


class CronScheduleFactory(factory.django.DjangoModelFactory):
    """A schedule of every minute that has never run."""

    class Meta:
        model = CronSchedule

    name = factory.Sequence(lambda number: f"schedule {number}")
    job_name = "tests.noop"
    cron_expression = "* * * * *"


def pending_job(**fields) -> ActiveJob:
    """Return a job that may be claimed."""
    return ActiveJobFactory(**fields)


def pending_jobs(count: int, **fields) -> list[ActiveJob]:
    """Return jobs that may be claimed, in the order in which they are due."""
    return ActiveJobFactory.create_batch(count, **fields)


def scheduled_job(*, due_in: timedelta = timedelta(hours=1), **fields) -> ActiveJob:
    """Return a job whose time comes in ``due_in``, which may be negative."""
    return waiting_job(JobStatus.SCHEDULED, due_in=due_in, **fields)


def failed_job(*, due_in: timedelta = timedelta(hours=1), attempt=1, **fields) -> ActiveJob:
    """Return a job that backs off after ``attempt`` failures."""
    job = waiting_job(JobStatus.FAILED, due_in=due_in, attempt=attempt, claims=attempt, **fields)
    record_failures(job, attempt)
    return job


def waiting_job(status: JobStatus, *, due_in: timedelta, **fields) -> ActiveJob:
    """Return a job that waits in ``status``."""
    now = server_now()
    return ActiveJobFactory(
        **{"status": status, "created_at": now, "scheduled_at": now + due_in, **fields}
    )


def running_job(
    *,
    worker: str = WORKER,
    attempt: int = 1,
    lease_expires_in: timedelta = timedelta(minutes=5),
    lease_expired_by: timedelta | None = None,
    **fields,
) -> ActiveJob:
    """Return a job that ``worker`` runs for the ``attempt``-th time.

    Args:
        worker: its owner.
        attempt: also the number of its claims; the ones before failed.
        lease_expires_in: from now.
        lease_expired_by: for how long the lease has been over.
        **fields: of the row.
    """
    now = server_now()
    if lease_expired_by is not None:
        lease_expires_in = -lease_expired_by
    started_at = min(now, now + lease_expires_in) - timedelta(seconds=30)
    job = ActiveJobFactory(
        **{
            "status": JobStatus.RUNNING,
            "created_at": started_at - timedelta(hours=1),
            "started_at": started_at,
            "locked_at": started_at,
            "locked_by": worker,
            "lease_expires": now + lease_expires_in,
            "fence_token": next_token(),
            "attempt": attempt,
            "claims": attempt,
            **fields,
        }
    )
    record_failures(job, attempt - 1)
    return job


def completed_job(**fields) -> CompletedJob:
    """Return a job that succeeded."""
    return CompletedJobFactory(**fields)


def dead_job(*, attempt: int = 3, **fields) -> CompletedJob:
    """Return a job that failed ``attempt`` times, for good."""
    job = CompletedJobFactory(
        **{
            "status": JobStatus.DEAD,
            "attempt": attempt,
            "claims": attempt,
            "max_attempts": attempt,
            "error_class": "ValueError",
            "error_message": "no",
            **fields,
        }
    )
    record_failures(job, attempt - 1)
    JobAttemptFactory(
        job_id=job.id,
        tenant_id=job.tenant_id,
        claim=attempt,
        fence_token=job.fence_token,
        started_at=job.locked_at,
        finished_at=job.completed_at,
        outcome="failed",
    )
    return job


def cancelled_job(**fields) -> CompletedJob:
    """Return a job that was cancelled before it ever ran."""
    never = dict.fromkeys(("started_at", "locked_at", "locked_by", "fence_token"))
    return CompletedJobFactory(
        **{"status": JobStatus.CANCELLED, "attempt": 0, "claims": 0, **never, **fields}
    )


def record_failures(job: ActiveJob | CompletedJob, count: int) -> None:
    """Write the attempts 1 to ``count`` of ``job``: each failed, a minute apart."""
    start = job.created_at
    for claim in itertools.islice(itertools.count(1), count):
        began = start + timedelta(seconds=claim)
        JobAttemptFactory(
            job_id=job.id,
            tenant_id=job.tenant_id,
            claim=claim,
            started_at=began,
            finished_at=began + timedelta(milliseconds=500),
        )
