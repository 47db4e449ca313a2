"""Each slot of a schedule enqueues one job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.maintenance.scheduler import Scheduler, latest_slot
from django_pgjobs.models import ActiveJob, CronSchedule
from tests import factories


def known():
    pass


@pytest.fixture
def scheduler():
    registry = Registry()
    registry.add(
        JobDefinition(name="tests.known", function=known, queue="reports", max_attempts=7)
    )
    return Scheduler(registry=registry, default_queue="default", default_max_attempts=3)


def run(scheduler, connection):
    return scheduler.run_once(connection, batch_size=10)


def due_schedule(**fields) -> CronSchedule:
    due = factories.server_now() - timedelta(seconds=30)
    return factories.CronScheduleFactory(**{"next_run_at": due, **fields})


def test_nothing_is_due(connection, scheduler):
    factories.CronScheduleFactory(next_run_at=factories.server_now() + timedelta(hours=1))
    due_schedule(enabled=False)

    assert run(scheduler, connection).touched == []


def test_a_new_schedule_waits_for_its_first_slot(connection, scheduler):
    schedule = factories.CronScheduleFactory(cron_expression="0 0 1 1 *")

    assert run(scheduler, connection).touched == []
    schedule.refresh_from_db()
    assert (schedule.next_run_at.month, schedule.next_run_at.day) == (1, 1)


def test_a_due_slot_enqueues_its_job_and_moves_on(connection, scheduler):
    schedule = due_schedule(
        job_name="tests.known", payload={"x": 1}, tenant_id=4, cron_expression="0 0 1 1 *"
    )
    slot = schedule.next_run_at

    (job_id,) = run(scheduler, connection).touched

    job = ActiveJob.objects.get(pk=job_id)
    assert (job.job_name, job.payload, job.tenant_id) == ("tests.known", {"x": 1}, 4)
    assert (job.queue_name, job.max_attempts, job.scheduled_at) == ("reports", 7, slot)
    assert job.meta["schedule"] == schedule.name
    schedule.refresh_from_db()
    assert schedule.last_run_at == slot
    assert schedule.next_run_at > slot
    assert run(scheduler, connection).touched == []


def test_a_job_that_this_process_does_not_know_is_enqueued_all_the_same(connection, scheduler):
    due_schedule(job_name="tests.elsewhere", queue_name="other")

    (job_id,) = run(scheduler, connection).touched

    job = ActiveJob.objects.get(pk=job_id)
    assert (job.queue_name, job.max_attempts) == ("other", 3)


def test_a_slot_that_has_fired_does_not_fire_again(connection, scheduler):
    """Even if the schedule's row is set back, as by a restore or by hand."""
    schedule = due_schedule()
    slot = schedule.next_run_at
    run(scheduler, connection)
    ActiveJob.objects.all().delete()
    CronSchedule.objects.update(next_run_at=slot)

    assert run(scheduler, connection).touched == []
    assert not ActiveJob.objects.exists()


def test_of_missed_slots_only_the_latest_fires(connection, scheduler):
    due_schedule(next_run_at=factories.server_now() - timedelta(hours=3))

    fired = run(scheduler, connection).touched

    assert len(fired) == 1
    slot = ActiveJob.objects.get().scheduled_at
    assert factories.server_now() - slot < timedelta(minutes=2)


def test_two_schedulers_share_the_work(connect, scheduler):
    one, other = connect(autocommit=False), connect()
    due_schedule()
    with one.transaction():
        fired = run(scheduler, one).touched
        assert run(scheduler, other).touched == []

    assert len(fired) == 1
    assert run(scheduler, other).touched == []


def test_a_schedule_that_can_never_run_stops_no_other(connection, scheduler, caplog):
    bad = due_schedule(cron_expression="0 0 30 2 *", name="thirtieth of February")
    due_schedule()

    assert len(run(scheduler, connection).touched) == 1
    bad.refresh_from_db()
    assert not bad.enabled
    assert "The schedule 'thirtieth of February' was disabled" in caplog.text


def test_the_latest_slot_is_found_however_far_back_it_lies():
    now = datetime(2026, 6, 15, 12, 30, 30, tzinfo=UTC)

    assert latest_slot("* * * * *", "UTC", before=now) == datetime(2026, 6, 15, 12, 30, tzinfo=UTC)
    assert latest_slot("0 0 1 1 *", "UTC", before=now) == datetime(2026, 1, 1, tzinfo=UTC)
