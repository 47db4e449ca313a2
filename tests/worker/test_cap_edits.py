"""Caps are kept while people edit them, attempts end and leases expire."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from random import Random

import pytest

from django_pgjobs.store.finish import Success, complete_jobs
from django_pgjobs.store.maintain import reap_leases
from tests.store.calls import BACKOFF
from tests.worker.claims import claimer, configure, fill

TENANTS = 4

#: Every edit of a cap is written down by its own transaction.
LOG = """
    CREATE TABLE cap_log (number bigserial, tenant_id bigint, cap integer);
    CREATE FUNCTION log_cap() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO cap_log (tenant_id, cap) VALUES (new.tenant_id, new.max_concurrent_jobs);
        RETURN new;
    END
    $$;
    CREATE TRIGGER log_cap AFTER INSERT OR UPDATE ON tenant_config
        FOR EACH ROW EXECUTE FUNCTION log_cap();
"""
LOOK = """
    SELECT tenant_config.tenant_id,
        count(jobs_active.id),
        (
            SELECT array_agg(cap_log.cap ORDER BY cap_log.number)
            FROM cap_log
            WHERE cap_log.tenant_id = tenant_config.tenant_id
        )
    FROM tenant_config
    LEFT JOIN jobs_active
        ON jobs_active.tenant_id = tenant_config.tenant_id AND jobs_active.status = 'running'
    GROUP BY tenant_config.tenant_id
"""


@pytest.fixture
def cap_log(connection):
    connection.execute(LOG)
    yield
    connection.execute("DROP TABLE cap_log; DROP FUNCTION log_cap CASCADE")


def look(connection, done: threading.Event) -> list[tuple[int, int, list[int]]]:
    """Return each tenant that has been seen with more running jobs than it may have.

    What runs when a cap is lowered goes on. So a tenant may have as many as at the last look, or
    as any cap allows that was in force since then.
    """
    found, running, seen = [], Counter[int](), Counter[int]()
    while not done.is_set():
        for tenant, count, caps in connection.execute(LOOK):
            since = caps[max(0, seen[tenant] - 1) :]
            if count > max(running[tenant], *since):
                found.append((tenant, count, since))
            running[tenant], seen[tenant] = count, len(caps)
    return found


def work(connection, number: int) -> None:
    """Claim, and complete some of it; the leases of the first worker are too short."""
    name, random = f"worker-{number}", Random(number)
    claims = claimer(name, seed=number)
    if number == 0:
        claims.lease = timedelta(milliseconds=1)
    for _ in range(100):
        jobs = claims.claim(connection, random.randint(1, 8))
        some = random.sample(jobs, random.randint(0, len(jobs)))
        successes = [Success(job.id, job.fence_token, None) for job in some]
        complete_jobs(connection, successes, worker_id=name)


def edit(connection, done: threading.Event) -> None:
    """Raise and lower caps."""
    random = Random(9)
    while not done.is_set():
        configure(connection, random.randrange(TENANTS), cap=random.choice([0, 1, 2, 5]))


def reap(connection, done: threading.Event) -> None:
    """Let leases expire and end their attempts."""
    while not done.is_set():
        connection.execute(
            "UPDATE jobs_active SET lease_expires = now() WHERE status = 'running' AND id % 3 = 0"
        )
        reap_leases(connection, limit=100, **BACKOFF)


def test_caps_hold_at_every_instant(connect, connection, cap_log, background):
    for tenant in range(TENANTS):
        configure(connection, tenant, cap=2)
        fill(connection, tenant, 300)
    done = threading.Event()

    looking = background(look, connect(), done)
    others = [background(act, connect(), done) for act in (edit, reap)]
    try:
        for working in [background(work, connect(), number) for number in range(4)]:
            working.result(60)
    finally:
        done.set()

    assert looking.result(10) == []
    assert [other.result(10) for other in others] == [None, None]
    query = "SELECT (SELECT count(*) FROM jobs_completed) + (SELECT count(*) FROM job_attempts)"
    ended = connection.execute(query).fetchone()[0]
    assert ended > 20
