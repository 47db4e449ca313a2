"""Maintenance that dies in any step, and what the next one finds."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from tests import factories
from tests.acceptance.jobs import gated, quick
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process

MINUTE = timedelta(minutes=1)
YEAR = timedelta(days=366)

#: Who holds a table stops maintenance in a step: leading, reaping, expiring, firing, staging.
TABLES = ["maintenance_leader", "job_attempts", "jobs_completed", "cron_runs", "jobs_active"]


@pytest.mark.parametrize("table", TABLES)
def test_what_a_killed_maintenance_has_begun_the_next_one_does(processes, connect, table):
    lost = factories.running_job(lease_expired_by=MINUTE, job_name=quick.name)
    due = factories.scheduled_job(due_in=-MINUTE, job_name=quick.name)
    expired = factories.pending_job(
        job_name=quick.name, expires_at=factories.server_now() - MINUTE
    )
    # The first of January that was the last is still to be dealt with.
    schedule = factories.CronScheduleFactory(
        job_name=quick.name,
        cron_expression="0 0 1 1 *",
        active_since=factories.server_now() - YEAR,
    )
    holder = connect()
    with holder.transaction():
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        first = processes.start("pgjobs_maintain")
        wait_until(lambda: processes.value(WAITING), "maintenance waits for the lock")
        first.kill()
    # What it had asked for is still done, or undone, before its backend ends.
    wait_until(lambda: not processes.value(CONNECTED), "its backend is gone")
    processes.connection.execute("UPDATE maintenance_leader SET expires_at = now()")

    processes.maintenance()
    processes.worker()

    processes.wait_until_empty()
    assert processes.status_of(lost.id) == processes.status_of(due.id) == "completed"
    wait_until(lambda: processes.value(FIRED, schedule.id) == "completed", "the slot's job ends")
    assert processes.status_of(expired.id) in {"cancelled", "completed"}
    processes.check_invariants([lost.id, due.id, expired.id])


WAITING = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgjobs maintenance'
        AND datname = current_database() AND wait_event_type = 'Lock')
"""
CONNECTED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgjobs maintenance'
        AND datname = current_database())
"""
FIRED = """
    SELECT jobs_completed.status::text FROM cron_runs
    JOIN jobs_completed ON jobs_completed.id = cron_runs.job_id
    WHERE cron_runs.schedule_id = %s
"""


def test_two_signals_at_once_are_one_request(processes):
    maintenance = processes.maintenance()

    maintenance.send_together(signal.SIGTERM, signal.SIGINT)

    assert maintenance.wait() == 0
    assert "maintenance stopped" in maintenance.output()


def test_a_second_signal_does_not_wait_for_the_step_under_way(processes, connect):
    holder = connect()
    with holder.transaction():
        holder.execute("LOCK TABLE jobs_active IN ACCESS EXCLUSIVE MODE")
        maintenance = processes.start("pgjobs_maintain")
        wait_until(lambda: processes.value(WAITING), "maintenance waits for the lock")

        assert maintenance.insist(signal.SIGTERM) == 128 + signal.SIGTERM


def test_a_worker_with_the_name_of_a_dead_one_does_not_keep_its_jobs(processes, tmp_path):
    """As in containers: the same host name and process id after each restart."""
    processes.environment["PGJOBS_TEST_IDENTITY"] = "host 1"
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    processes.maintenance()
    first = processes.worker()
    processes.wait_for_start(job.id)
    query = "SELECT locked_by FROM jobs_active WHERE id = %s"
    assert processes.value(query, job.id).startswith("host:1:")

    first.kill()
    processes.worker()

    processes.wait_for_start(job.id, claim=2)
    assert processes.value(query, job.id).startswith("host:1:")
    gate.touch()
    processes.wait_for_status(job.id, "completed")
    processes.check_invariants([job.id])
