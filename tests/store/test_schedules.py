"""Slots of schedules: each fires at most once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from django_pgjobs.store.schedules import (
    advance_schedule,
    disable_schedule,
    fire_slot,
    lock_due_schedules,
)
from tests import factories
from tests.fix_database import wait_until_blocked
from tests.invariants import check_invariants

from .calls import claim_jobs, complete
from .test_enqueue import new_job

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")


def due(connection, **values):
    return [row.id for row in lock_due_schedules(connection, **{"limit": 10, **values})]


class TestLockDueSchedules:
    """Which schedules to fire."""

    def test_a_new_and_a_due_schedule_are_found_with_their_columns(self):
        now = factories.server_now()
        new = factories.CronScheduleFactory(
            tenant_id=5, queue_name="mail", payload={"a": 1}, timezone="Europe/Berlin"
        )
        late = factories.CronScheduleFactory(next_run_at=now - MINUTE)

        rows = {row.id: row for row in lock_due_schedules(connection, limit=10)}

        assert set(rows) == {new.id, late.id}
        assert rows[late.id].next_run_at == now - MINUTE
        row = rows[new.id]
        assert (row.name, row.job_name, row.cron_expression) == (
            new.name,
            "tests.noop",
            "* * * * *",
        )
        assert (row.tenant_id, row.queue_name, row.timezone) == (5, "mail", "Europe/Berlin")
        assert (row.payload, row.next_run_at) == ('{"a": 1}', None)
        assert now <= row.now <= factories.server_now()

    def test_one_that_is_not_due_or_not_enabled_is_not(self):
        now = factories.server_now()
        factories.CronScheduleFactory(next_run_at=now + MINUTE)
        factories.CronScheduleFactory(enabled=False)

        assert due(connection) == []
        assert len(due(connection, now=now + 2 * MINUTE)) == 1

    def test_there_is_a_limit(self):
        factories.CronScheduleFactory.create_batch(3)

        assert len(due(connection, limit=2)) == 2

    def test_what_another_process_fires_is_left_to_it(self, connect):
        factories.CronScheduleFactory()
        first, second = connect(), connect()
        with first.transaction():
            assert len(due(first)) == 1
            assert due(second) == []
        assert len(due(second)) == 1


class TestFireSlot:
    """One job for each slot."""

    def test_a_slot_enqueues_its_job_due_at_the_slot(self):
        slot = factories.server_now() - MINUTE
        job = new_job(queue="mail", tenant_id=5, priority=2, payload='{"a": 1}', max_attempts=7)

        job_id = fire_slot(connection, schedule_id=1, slot_at=slot, job=job)

        row = ActiveJob.objects.get()
        assert (row.id, row.status, row.scheduled_at) == (job_id, JobStatus.PENDING, slot)
        assert (row.queue_name, row.tenant_id, row.priority) == ("mail", 5, 2)
        assert (row.payload, row.max_attempts) == ({"a": 1}, 7)

    def test_a_slot_never_fires_again_even_when_its_job_is_gone(self, connect):
        raw, slot = connect(), factories.server_now()
        fire_slot(raw, schedule_id=1, slot_at=slot, job=new_job())
        complete(raw, *claim_jobs(raw).jobs)

        assert fire_slot(raw, schedule_id=1, slot_at=slot, job=new_job()) is None
        assert not ActiveJob.objects.exists()
        assert check_invariants(raw) == []

    def test_another_slot_and_another_schedule_fire(self):
        slot = factories.server_now()
        fire_slot(connection, schedule_id=1, slot_at=slot, job=new_job())

        assert fire_slot(connection, schedule_id=1, slot_at=slot + MINUTE, job=new_job())
        assert fire_slot(connection, schedule_id=2, slot_at=slot, job=new_job())

    @pytest.mark.parametrize("commits", [True, False])
    def test_two_at_once_fire_it_once(self, connect, background, commits):
        slot = factories.server_now()
        first, second, observer = connect(), connect(), connect()
        with first.transaction(force_rollback=not commits):
            fire_slot(first, schedule_id=1, slot_at=slot, job=new_job())
            waiting = background(fire_slot, second, schedule_id=1, slot_at=slot, job=new_job())
            wait_until_blocked(observer, second)

        assert (waiting.result() is None) is commits
        assert ActiveJob.objects.count() == 1
        assert check_invariants(observer) == []


class TestAdvanceSchedule:
    """The next slot."""

    def test_a_schedule_moves_on(self):
        schedule = factories.CronScheduleFactory()
        now = factories.server_now()

        advance_schedule(
            connection, schedule_id=schedule.id, last_run_at=now, next_run_at=now + MINUTE
        )

        schedule.refresh_from_db()
        assert (schedule.last_run_at, schedule.next_run_at) == (now, now + MINUTE)

    def test_the_last_run_stays_when_nothing_was_fired(self):
        now = factories.server_now()
        schedule = factories.CronScheduleFactory(last_run_at=now)

        advance_schedule(
            connection, schedule_id=schedule.id, last_run_at=None, next_run_at=now + MINUTE
        )

        schedule.refresh_from_db()
        assert schedule.last_run_at == now

    def test_a_schedule_that_can_never_be_due_is_stopped(self):
        schedule = factories.CronScheduleFactory()

        disable_schedule(connection, schedule_id=schedule.id)

        assert due(connection) == []
