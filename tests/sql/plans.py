"""Much data, and what the planner makes of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import psycopg

from django_pgjobs.observability.plans import feeding, nodes
from django_pgjobs.sql import statement
from django_pgjobs.store.partitions import create_partition

from .statements import StatementFile

TENANTS = 200
FILL = """
    INSERT INTO jobs_active (epoch, tenant_id, created_at, scheduled_at, expires_at, status,
        priority, job_name, idempotency_key, payload)
    SELECT 1, n % {tenants}, now(), now() - n * interval '1 ms',
        CASE WHEN n % 100 = 0 THEN now() + interval '1 day' END,
        'pending', n % 3, 'tests.noop', CASE WHEN n % 20 = 0 THEN 'key ' || n END,
        jsonb_build_object('order', n)
    FROM generate_series(1, {pending}) AS n;

    INSERT INTO jobs_active (epoch, tenant_id, created_at, scheduled_at, status, job_name, payload)
    SELECT 1, n % {tenants}, now(), now() + n * interval '1 s', 'scheduled', 'tests.noop',
        jsonb_build_object('order', n)
    FROM generate_series(1, {scheduled}) AS n;

    INSERT INTO jobs_active (epoch, tenant_id, created_at, scheduled_at, status, job_name, payload,
        attempt, claims, started_at, locked_at, locked_by, lease_expires, fence_token)
    SELECT 1, n % {tenants}, now(), now(), 'running', 'tests.noop', '{{}}', 1, 1, now(), now(),
        'worker-' || n % 20, now() + interval '5 min', nextval('jobs_fence') << 16
    FROM generate_series(1, {running}) AS n;

    INSERT INTO jobs_completed (id, tenant_id, fence_token, created_at, scheduled_at, started_at,
        locked_at, completed_at, status, attempt, max_attempts, claims, generation, priority,
        payload_version, job_name, queue_name, locked_by, payload)
    SELECT nextval('jobs_id'), n % {tenants}, nextval('jobs_fence') << 16, at, at, at, at, at,
        CASE WHEN n % 10 = 0 THEN 'dead' ELSE 'completed' END::job_status, 1, 1, 1, 0, 0, 1,
        'tests.noop', 'default', 'worker-1', '{{}}'
    FROM generate_series(1, {history}) AS n,
        LATERAL (SELECT now() - n / 10 % 10 * interval '1 day') AS day (at);

    INSERT INTO job_attempts (job_id, tenant_id, fence_token, started_at, finished_at, claim,
        generation, attempt, job_name, queue_name, worker_id, outcome)
    SELECT id, tenant_id, fence_token, locked_at, completed_at, 1, 0, 1, job_name, queue_name,
        locked_by, 'failed'
    FROM jobs_completed
    WHERE status = 'dead';
"""


def fill(connection: psycopg.Connection, **counts: int) -> None:
    """Fill the tables, which have never been analyzed and will not be by themselves."""
    today = datetime.now(UTC).date()
    for table in ("jobs_completed", "job_attempts"):
        for days in range(10):
            create_partition(
                connection,
                table=table,
                day=today - timedelta(days=days),
                lock_timeout=timedelta(seconds=1),
            )
    connection.execute("ALTER TABLE jobs_active SET (autovacuum_enabled = false)")
    for name in partitions(connection):
        connection.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = false)")
    fill_rows(connection, **counts)


def fill_rows(connection: psycopg.Connection, **counts: int) -> None:
    """Add rows to the tables."""
    connection.execute(FILL.format(tenants=TENANTS, **counts))


def partitions(connection: psycopg.Connection) -> list[str]:
    """Return the partitions of both history tables."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON oid = inhparent"
    return [name for (name,) in connection.execute(f"{query} WHERE relkind = 'p'")]


def arguments(connection: psycopg.Connection, file: StatementFile) -> dict[str, object]:
    """Return likely values of the statement's parameters: batches of a hundred."""
    jobs = "jobs_completed WHERE status = 'dead'" if "redrive" in file.name else "jobs_active"
    if "fence_tokens" in file.placeholders:
        jobs = "jobs_active WHERE status = 'running' AND locked_by = 'worker-1'"
    ids, tokens = [], []
    for job_id, token in connection.execute(
        f"SELECT id, fence_token FROM {jobs} ORDER BY id LIMIT 100"
    ):
        ids.append(job_id)
        tokens.append(token)
    values = {
        "ids": ids,
        "fence_tokens": tokens,
        "worker_id": "worker-1",
        "queue": "default",
        "limit": 100,
        "walked": 50,
        "count": 100,
        "tenant_id": 7,
        "after_tenant": 50,
        "carry": 0,
        "mean_weight": 10.0,
        "offset": 0.5,
        "default_weight": 10,
        "evenly": False,
        "breaker": "bank",
        "lease": timedelta(minutes=5),
        "grace": timedelta(minutes=5),
        "epoch": 1,
        "from_epoch": 1,
        "after_id": 100,
        "until_id": 2**40,
        "status": "dead" if "unsuccessful" in file.name else "pending",
        "generation": 1,
        "from_generation": 1,
        "floor": 1,
        "now": None,
        "tenant_ids": [7] * 100,
        "job_names": ["tests.noop"] * 100,
        "idempotency_keys": [f"key {20 * n}" for n in range(1, 101)],
    }
    return {name: values.get(name) for name in file.placeholders}


def custom_plan(connection: psycopg.Connection, file: StatementFile) -> dict:
    """Return the plan for one set of values."""
    cursor = psycopg.ClientCursor(connection)
    values = arguments(connection, file)
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement(file.name)}", values)
    return cursor.fetchone()[0][0]["Plan"]


def generic_plan(connection: psycopg.Connection, file: StatementFile) -> dict:
    """Return the plan for all values, which a prepared statement ends up with."""
    text, names = file.numbered
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute(f"PREPARE planned AS {text}")
    nulls = ", ".join(["NULL"] * len(names))
    call = f"planned({nulls})" if names else "planned"
    try:
        return connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {call}").fetchone()[0][0]["Plan"]
    finally:
        connection.execute("DEALLOCATE planned")
        connection.execute("RESET plan_cache_mode")


def reads_table(node: dict, table: str) -> bool:
    """Say whether a node reads a table itself."""
    return node.get("Relation Name", "") == table and "Scan" in node["Node Type"]


def is_lookup(node: dict) -> bool:
    """Say whether a node finds given rows: by their place, their id or their key."""
    condition = node.get("Index Cond") or node.get("Recheck Cond") or ""
    return node["Node Type"] == "Tid Scan" or bool(
        re.search(r"\((id|job_id|idempotency_key) = ", condition)
    )


def table_scans(plan: dict, table: str) -> list[dict]:
    """Return the sequential scans of a table."""
    return [
        node
        for node in nodes(plan)
        if reads_table(node, table) and node["Node Type"] == "Seq Scan"
    ]


def sorts_of_tables(plan: dict, table: str) -> list[dict]:
    """Return the sorts of what an unlimited scan of a table found."""
    return [
        node
        for node in nodes(plan)
        if node["Node Type"] in {"Sort", "Incremental Sort"}
        and any(reads_table(fed, table) and not is_lookup(fed) for fed in feeding(node))
    ]


def used_indexes(connection: psycopg.Connection, plan: dict) -> set[str]:
    """Return the indexes of a plan; those of partitions as the index of the parent."""
    parents = dict(
        connection.execute(
            "SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits"
        ).fetchall()
    )
    names = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    return {parents.get(name, name) for name in names}
