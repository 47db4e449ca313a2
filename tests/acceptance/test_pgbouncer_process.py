"""Real workers and maintenance that reach PostgreSQL through PgBouncer in transaction mode."""

from __future__ import annotations

import json
import signal

import psycopg
import pytest

from django_pgjobs import enqueue_many
from django_pgjobs.administration import operations
from django_pgjobs.models import CronSchedule, TenantConfig
from tests.acceptance.jobs import gated, gated_in_transaction, quick
from tests.fix_database import url_of
from tests.fix_pgbouncer import session_state
from tests.fix_workers import running_processes, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def pooled(pooled_url, connection, tmp_path):
    """Start processes that share one server connection, and only poll."""
    environment = {"PGJOBS_TEST_SETTINGS": json.dumps({"LISTEN": False})}
    with running_processes(tmp_path, pooled_url, connection, environment) as processes:
        yield processes


@pytest.fixture
def serializable(connection):
    """Have every new session of the database begin at another isolation level."""
    alter = f"ALTER DATABASE {connection.info.dbname}"
    connection.execute(f"{alter} SET default_transaction_isolation = 'serializable'")
    yield
    connection.execute(f"{alter} RESET ALL")


def test_nothing_is_left_in_the_sessions_of_the_pool(pooled, pooled_url, tmp_path):
    """Claims fair, alone and under caps; retries; maintenance of every kind; a cancellation."""
    TenantConfig.objects.create(tenant_id=7, max_concurrent_jobs=2)
    CronSchedule.objects.create(
        name="each minute", job_name=quick.name, cron_expression="* * * * *"
    )
    gate = tmp_path / "gate"
    held = gated.enqueue(gate=str(gate))
    pooled.maintenance()
    worker = pooled.worker()
    pooled.wait_for_start(held.id)
    jobs = enqueue_many(
        quick.using(tenant=tenant).prepare(number=number)
        for tenant in (0, 7, 8)
        for number in range(50)
    )

    # And those that the schedule has fired meanwhile.
    wait_until(lambda: len(pooled.events("end")) >= 150, "the jobs run")
    operations.cancel(None, [held.id], reason="enough")
    gate.touch()

    pooled.wait_until_empty()
    assert pooled.status_of(held.id) == "cancelled"
    with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as client:
        assert session_state(client) == {}
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert "WARNING" not in worker.output()
    pooled.check_invariants([job.id for job in jobs] + [held.id], quiet=False)


def test_another_isolation_level_by_default_does_not_matter(
    serializable, pooler, connection, tmp_path
):
    environment = {"PGJOBS_TEST_SETTINGS": json.dumps({"LISTEN": False})}
    with (
        pooler(8) as running,
        running_processes(
            tmp_path, running.url(connection.info.dbname), connection, environment
        ) as processes,
    ):
        enqueued = [job.id for job in enqueue_many(quick.prepare(number=n) for n in range(2_000))]
        workers = [processes.worker("--maintain"), processes.worker("--maintain")]

        processes.wait_until_empty()

        assert [worker.output() for worker in workers if "serialize" in worker.output()] == []
        processes.check_invariants(enqueued)


def test_a_worker_that_dies_loses_nothing(pooler, connection, tmp_path):
    environment = {"PGJOBS_TEST_SETTINGS": json.dumps({"LISTEN": False})}
    gate = tmp_path / "gate"
    jobs = [handler.enqueue(gate=str(gate)).id for handler in (gated, gated_in_transaction)]
    with (
        pooler(8) as running,
        running_processes(
            tmp_path, running.url(connection.info.dbname), connection, environment
        ) as processes,
    ):
        processes.maintenance()
        first = processes.worker()
        for job_id in jobs:
            processes.wait_for_start(job_id)

        first.kill()
        processes.worker()
        for job_id in jobs:
            processes.wait_for_start(job_id, claim=2)
        gate.touch()

        processes.wait_until_empty()
        processes.check_invariants(jobs)


def test_a_worker_that_was_not_told_of_the_pooler_says_so(pooled_url, connection, tmp_path):
    with running_processes(tmp_path, pooled_url, connection) as processes:
        worker = processes.worker()

        assert "The database is reached through a pooler." in worker.output()


def test_a_worker_listens_past_the_pooler(pooled_url, connection, tmp_path):
    """It would look again in five minutes."""
    environment = {
        "PGJOBS_TEST_SETTINGS": json.dumps({"LISTEN_DATABASE": "direct"}),
        "PGJOBS_TEST_DIRECT_URL": url_of(connection),
    }
    with running_processes(tmp_path, pooled_url, connection, environment) as processes:
        processes.worker(durations={"POLL_INTERVAL": 300.0})
        query = (
            "SELECT EXISTS (SELECT FROM job_workers WHERE idle_since < now() - interval '1.5 s')"
        )
        wait_until(lambda: processes.value(query), "the worker sleeps")

        job = quick.enqueue()

        processes.wait_for_status(job.id, "completed")
        with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as client:
            assert session_state(client) == {}
