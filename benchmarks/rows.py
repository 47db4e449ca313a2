"""Put rows into our tables by the million, without going through the package."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import psycopg

_FILL: Final = """
INSERT INTO jobs_active (
    epoch, tenant_id, created_at, scheduled_at, status, job_name, queue_name, payload
)
SELECT jobs_epoch.last_value,
    mod(number, %(tenants)s::integer),
    statement_timestamp(),
    statement_timestamp() + %(due_in)s::interval,
    %(status)s::job_status,
    'benchmarks.jobs.nothing',
    'default',
    jsonb_build_object('order_id', number)
FROM jobs_epoch,
    generate_series(1, %(count)s::integer) AS number
"""


def fill(connection: psycopg.Connection[Any], count: int, *, tenants: int = 1) -> None:
    """Add pending jobs, as many to each tenant.

    Args:
        connection: where the tables are.
        count: how many.
        tenants: how many share them; their ids begin with 0.
    """
    params = {"count": count, "tenants": tenants, "due_in": timedelta(0), "status": "pending"}
    connection.execute(_FILL, params)


def fill_future(connection: psycopg.Connection[Any], count: int, *, tenants: int = 1) -> None:
    """Add scheduled jobs that do not come due while anybody measures.

    Args:
        connection: where the tables are.
        count: how many.
        tenants: how many share them.
    """
    month = timedelta(days=30)
    params = {"count": count, "tenants": tenants, "due_in": month, "status": "scheduled"}
    connection.execute(_FILL, params)


def clear(connection: psycopg.Connection[Any]) -> None:
    """Remove all jobs, with everything that dead rows left in the indexes."""
    connection.execute("TRUNCATE jobs_active, jobs_completed, job_attempts")


def analyze(connection: psycopg.Connection[Any]) -> None:
    """Do what autovacuum does some time after a bulk load."""
    connection.execute("VACUUM ANALYZE jobs_active")
