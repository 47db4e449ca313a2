"""What the lists cost on tables of many rows: each reads a bounded number through an index."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_pgjobs.admin.jobs import JobAdmin
from tests.fix_database import empty_tables

from .conftest import url

pytestmark = pytest.mark.slow

#: Rows that a page may examine in these tests, far fewer than the tables hold.
LOOK = 2_000

# 40,000 unfinished jobs: the newest are pending, and nothing rare is among them.
ACTIVE = """
    INSERT INTO jobs_active (id, epoch, tenant_id, created_at, scheduled_at, status, attempt,
        claims, job_name, queue_name, idempotency_key, fence_token, locked_by, locked_at,
        lease_expires)
    SELECT n, 1, CASE WHEN n % 10 = 0 THEN 7 ELSE 0 END, now(), now(), status,
        (status = 'running')::int, (status = 'running')::int,
        CASE WHEN n % 100 = 0 THEN 'tests.mail' ELSE 'tests.noop' END,
        CASE WHEN n % 20 = 0 THEN 'email' ELSE 'default' END,
        CASE WHEN n % 2 = 0 THEN 'key ' || n END,
        CASE WHEN status = 'running' THEN n END, CASE WHEN status = 'running' THEN 'w' END,
        CASE WHEN status = 'running' THEN now() END, CASE WHEN status = 'running' THEN now() END
    FROM generate_series(1, 40000) AS n,
        LATERAL (SELECT CASE WHEN n <= 50 THEN 'running' WHEN n <= 60 THEN 'blocked'
            WHEN n <= 2000 THEN 'scheduled' WHEN n <= 3000 THEN 'failed' ELSE 'pending' END
            ::job_status AS status) AS chosen
"""

# 30,000 finished jobs a day.
HISTORY = """
    INSERT INTO jobs_completed (id, tenant_id, created_at, scheduled_at, completed_at, status,
        attempt, max_attempts, claims, generation, priority, payload_version, job_name,
        queue_name, payload)
    SELECT day * 100000 + n, CASE WHEN n % 10 = 0 THEN 7 ELSE 0 END, now(), now(),
        '2026-01-01T00:00Z'::timestamptz + day * interval '1 day' + n * interval '1 second',
        (CASE WHEN n % 50 = 0 THEN 'dead' WHEN n % 77 = 0 THEN 'cancelled' ELSE 'completed' END)
        ::job_status, 1, 3, 1, 0, 0, 1,
        CASE WHEN n % 101 = 0 THEN 'tests.mail' ELSE 'tests.noop' END,
        CASE WHEN n % 23 = 0 THEN 'email' ELSE 'default' END, '{}'
    FROM generate_series(0, 2) AS day, generate_series(1, 30000) AS n
"""

ATTEMPTS = """
    INSERT INTO job_attempts (job_id, tenant_id, fence_token, started_at, finished_at, claim,
        generation, attempt, job_name, queue_name, worker_id, outcome)
    SELECT day * 100000 + n / 2, 0, day * 100000 + n, now(),
        '2026-01-01T00:00Z'::timestamptz + day * interval '1 day' + n * interval '1 second',
        n % 2 + 1, 0, 1, 'tests.noop', 'default', 'w', 'failed'
    FROM generate_series(0, 2) AS day, generate_series(1, 20000) AS n
"""

STATUSES = {
    "activejob": ("running", "blocked", "scheduled", "failed", "pending"),
    "completedjob": ("completed", "dead", "cancelled"),
}


@pytest.fixture(scope="module")
def conninfo_of_many(conninfo, django_db_blocker):
    """Fill the tables once for the module; return how to reach them."""
    with psycopg.connect(conninfo, autocommit=True) as raw:
        for day in (1, 2, 3):
            for table in ("jobs_completed", "job_attempts"):
                raw.execute(
                    f"CREATE TABLE {table}_2026010{day} PARTITION OF {table} "
                    f"FOR VALUES FROM ('2026-01-0{day}T00:00Z') TO ('2026-01-0{day + 1}T00:00Z')"
                )
        for statement in (ACTIVE, HISTORY, ATTEMPTS):
            raw.execute(statement)
        raw.execute("VACUUM ANALYZE jobs_active, jobs_completed, job_attempts")
    yield conninfo
    empty_tables(conninfo)


@pytest.fixture
def explain(conninfo_of_many):
    """Return a function that runs a query, and returns the nodes of its plan."""
    with psycopg.connect(conninfo_of_many, autocommit=True) as raw:

        def explain(sql):
            command = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}"
            (((tree,),),) = raw.execute(command).fetchall()
            return list(nodes(tree["Plan"]))

        yield explain


@pytest.fixture(autouse=True)
def _look(monkeypatch):
    """Let a page examine fewer rows than there are."""
    monkeypatch.setattr(JobAdmin, "rows_per_look", LOOK)


def nodes(plan):
    """Return a node of a plan and all below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def rows_read(plan):
    """Return how many rows the scans of a plan looked at."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in plan
        if node["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Seq Scan"}
    )


def addresses():
    """Return every combination of the filters, the searches, and pages in the middle."""
    for model, statuses in STATUSES.items():
        filters = itertools.product(
            (None, *statuses), (None, "email"), (None, "tests.mail"), (None, "20000")
        )
        for status, queue, job, before in filters:
            query = {"status": status, "queue": queue, "job": job, "before": before}
            yield model, {key: value for key, value in query.items() if value}
        for search in ("1234", "job:tests.mail", "queue:email", "tenant:7", "tenant:0"):
            yield model, {"q": search}
        yield model, {"q": "tenant:7 job:tests.mail queue:email"}
        yield model, {"q": "job:tests.gone"}
        yield model, {"q": "tenant:7", "status": statuses[1]}
        yield model, {"q": "queue:gone tenant:8", "job": "tests.mail"}
    yield "activejob", {"q": "key:nothing"}
    yield "activejob", {"q": 'key:"key 1234" id:1234'}
    yield "activejob", {"q": 'key:"key 1234" job:tests.noop'}
    for query in ({}, {"before": "109000.2"}, {"before": "200000.1"}, {"q": "105000"}):
        yield "jobattempt", query


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "query"), list(addresses()))
def test_a_list_reads_a_bounded_number_of_rows_through_an_index(model, query, viewer, explain):
    with CaptureQueriesContext(connection) as queries:
        assert viewer.get(url(model), query).status_code == 200

    tables = ("jobs_active", "jobs_completed", "job_attempts")
    ours = [item["sql"] for item in queries if any(f'"{name}"' in item["sql"] for name in tables)]
    assert ours
    for sql in ours:
        plan = explain(sql)
        assert "COUNT(" not in sql.upper()
        assert not [node for node in plan if node["Node Type"] == "Seq Scan" and is_big(node)], sql
        sorts = [node for node in plan if node["Node Type"] == "Sort"]
        assert sum(node["Actual Rows"] for node in sorts) <= LOOK, sql
        assert rows_read(plan) <= LOOK + 200, sql


@pytest.mark.django_db
@pytest.mark.parametrize("model", ["activejob", "completedjob"])
def test_the_page_of_a_job_looks_rows_up(model, operator, explain):
    with CaptureQueriesContext(connection) as queries:
        assert operator.get(url(model, "change", 20_000)).status_code == 200

    ours = [item["sql"] for item in queries if '"job' in item["sql"]]
    assert any('"job_attempts"' in sql for sql in ours)
    for sql in ours:
        plan = explain(sql)
        assert not [node for node in plan if node["Node Type"] == "Seq Scan" and is_big(node)], sql
        assert rows_read(plan) <= 100, sql


def is_big(node):
    """Tell whether a scan is of a table that holds rows of these tests."""
    return not node["Relation Name"].endswith("_default")
