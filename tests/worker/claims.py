"""Help for tests that claim as workers do."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import psycopg

from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.finish import Success, complete_jobs
from django_pgjobs.worker.claiming import Claimer
from django_pgjobs.worker.queues import QueueOrder

Connection = psycopg.Connection[Any]


def claimer(name: str = "worker-a", seed: int = 1, **queues: int) -> Claimer:
    """Return a claimer of ``queues`` (name=weight), or of the default queue."""
    return Claimer(
        order=QueueOrder(queues or {"default": 1}),
        worker_id=name,
        lease=timedelta(minutes=5),
        default_weight=10,
        random=Random(seed),
    )


def fill(connection: Connection, tenant: int, jobs: int, queue: str = "default") -> None:
    """Give a tenant pending jobs."""
    connection.execute(
        """
        INSERT INTO jobs_active
            (epoch, tenant_id, queue_name, created_at, scheduled_at, status, job_name)
        SELECT (SELECT last_value FROM jobs_epoch), %s, %s, now(), clock_timestamp(), 'pending',
            'tests.noop'
        FROM generate_series(1, %s)
        """,
        [tenant, queue, jobs],
    )


def finish(connection: Connection, jobs: list[ClaimedJob], name: str = "worker-a") -> None:
    """Complete claimed jobs."""
    successes = [Success(job.id, job.fence_token, None) for job in jobs]
    assert len(complete_jobs(connection, successes, worker_id=name)) == len(jobs)


def configure(
    connection: Connection,
    tenant: int,
    *,
    weight: int = 10,
    boost: int = 0,
    cap: int | None = None,
) -> None:
    """Write a tenant's row."""
    connection.execute(
        "INSERT INTO tenant_config (tenant_id, quota_weight, priority_boost, max_concurrent_jobs) "
        "VALUES (%s, %s, %s, %s) ON CONFLICT (tenant_id) DO UPDATE "
        "SET quota_weight = excluded.quota_weight, priority_boost = excluded.priority_boost, "
        "max_concurrent_jobs = excluded.max_concurrent_jobs",
        [tenant, weight, boost, cap],
    )
