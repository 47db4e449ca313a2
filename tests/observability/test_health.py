"""What the health answer says, and when it complains."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from django_pgjobs.observability.health import read_health
from tests import factories

LEASE = timedelta(minutes=5)


def add_worker(connection):
    connection.execute(
        "INSERT INTO job_workers VALUES ('w', 'host', 1, '{default}', 1, 0, now(), now(), NULL)"
    )


def add_leader(connection):
    connection.execute(
        "INSERT INTO maintenance_leader VALUES ('maintenance', 'm', now() + interval '1 min')"
    )


@pytest.fixture
def running(connection):
    """Return the connection to a site with a worker and maintenance."""
    add_worker(connection)
    add_leader(connection)
    return connection


def test_a_site_at_work_is_healthy(running):
    factories.pending_jobs(3)
    factories.running_job()

    health = read_health(running, lease=LEASE)

    assert health.problems == []
    (queue,) = health.queues
    assert (queue.queue_name, queue.pending, queue.running) == ("default", 3, 1)
    assert health.as_dict()["epochs"]["live"] == 1


def test_pending_jobs_without_a_worker(connection):
    add_leader(connection)
    factories.pending_job()

    assert read_health(connection, lease=LEASE).problems == [
        "Jobs are pending and no worker runs. Start manage.py pgjobs_worker."
    ]


def test_no_maintenance(connection):
    assert read_health(connection, lease=LEASE).problems == [
        "No maintenance runs. Start manage.py pgjobs_maintain."
    ]


def test_schedules_that_do_not_fire_in_time(running):
    due = factories.server_now() - timedelta(minutes=6)
    factories.CronScheduleFactory(name="payroll", next_run_at=due)
    factories.CronScheduleFactory(name="odd", problem="No such zone.", tenant_id=3)
    factories.CronScheduleFactory(next_run_at=due + timedelta(hours=1))

    health = read_health(running, lease=LEASE)

    first, second = health.problems
    assert first.startswith("The schedule 'payroll' has been due for 0:06:0")
    assert second == "The schedule 'odd' cannot be fired: No such zone."
    late = health.as_dict()["late_schedules"]
    assert [(row["schedule"], row["tenant"], row["problem"]) for row in late] == [
        ("payroll", 0, ""),
        ("odd", 3, "No such zone."),
    ]
    assert json.dumps(late)


def test_jobs_that_wait_too_long(running):
    factories.pending_job(scheduled_at=factories.server_now() - timedelta(minutes=6))

    (problem,) = read_health(running, lease=LEASE).problems

    assert problem.startswith("Jobs of queue 'default' have been waiting for 0:06:0")


def test_a_paused_queue_may_wait(running):
    factories.pending_job(scheduled_at=factories.server_now() - timedelta(minutes=6))
    factories.PausedQueueFactory()

    health = read_health(running, lease=LEASE)

    assert health.problems == []
    assert health.queues[0].is_paused


def test_a_breaker_that_is_not_closed_and_what_it_holds(running):
    factories.BreakerFactory(name="mail")
    factories.BreakerFactory(name="bank", state="open", reason="They are closed.")
    factories.pending_jobs(2)
    running.execute("UPDATE jobs_active SET status = 'blocked', held_by = 'bank'")

    health = read_health(running, lease=LEASE)

    assert health.problems == [
        "The breaker 'bank' is open: its jobs are not claimed. They are closed."
    ]
    breakers = health.as_dict()["breakers"]
    assert [(row["breaker"], row["held"]) for row in breakers] == [("bank", 2), ("mail", 0)]


def test_due_jobs_that_nobody_stages(running):
    factories.scheduled_job(due_in=timedelta(seconds=-20))

    assert read_health(running, lease=LEASE).problems == [
        "1 waiting jobs are due and have not been staged."
    ]


def test_history_without_its_partition(running):
    factories.completed_job()

    (problem,) = read_health(running, lease=LEASE).problems

    assert problem.startswith("1 rows of history have no partition of their day.")


def test_the_count_of_pending_jobs_is_bounded(running):
    running.execute(
        "INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name) "
        "SELECT 1, now(), now(), 'pending', 'x' FROM generate_series(1, 10100)"
    )

    assert read_health(running, lease=LEASE).queues[0].pending == 10_000


def test_the_command_prints_json_and_exits_1_when_something_is_wrong(connection, capsys):
    with pytest.raises(SystemExit) as ended:
        call_command("pgjobs_health")

    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert answer["is_healthy"] is False
    assert answer["vitals"]["workers"] == 0


def test_the_command_exits_0_in_health(running, capsys):
    with pytest.raises(SystemExit) as ended:
        call_command("pgjobs_health")

    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
