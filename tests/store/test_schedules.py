"""Slots of schedules: each fires at most once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob, CronSchedule
from django_pgjobs.observability.plans import nodes
from django_pgjobs.states import JobStatus
from django_pgjobs.store.explain import explain
from django_pgjobs.store.schedules import (
    Advance,
    advance_schedules,
    fire_slots,
    list_late_schedules,
    list_slots,
    list_unfinished_jobs,
    lock_due_schedules,
    prune_slots,
    skip_slots,
)
from tests import factories
from tests.fix_database import wait_until_blocked
from tests.invariants import check_invariants

from .calls import claim_jobs, complete, firing

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
        new = factories.CronScheduleFactory(active_since=now - 9 * MINUTE)
        late = factories.CronScheduleFactory(
            timezone="Europe/Berlin",
            catch_up="collapse",
            catch_up_limit=5,
            overlap="queue_one",
            jitter=MINUTE,
            active_since=now - 9 * MINUTE,
            last_slot_at=now - 2 * MINUTE,
            next_run_at=now - MINUTE,
            queued_slot_at=now - 3 * MINUTE,
            last_job_id=8,
        )

        rows = {row.id: row for row in lock_due_schedules(connection, limit=10)}

        assert set(rows) == {new.id, late.id}
        assert rows[new.id].handled_until == now - 9 * MINUTE
        row = rows[late.id]
        assert (row.name, row.job_name, row.cron_expression) == (
            late.name,
            "tests.noop",
            "* * * * *",
        )
        assert (row.timezone, row.catch_up, row.catch_up_limit) == ("Europe/Berlin", "collapse", 5)
        assert (row.overlap, row.jitter, row.last_job_id) == ("queue_one", MINUTE, 8)
        assert (row.handled_until, row.queued_slot_at) == (now - 2 * MINUTE, now - 3 * MINUTE)
        assert now <= row.now <= factories.server_now()

    def test_one_that_is_not_due_or_paused_or_removed_is_not(self):
        now = factories.server_now()
        factories.CronScheduleFactory(next_run_at=now + MINUTE)
        factories.CronScheduleFactory(enabled=False)
        factories.CronScheduleFactory(removed_at=now)

        assert due(connection) == []
        assert len(due(connection, now=now + 2 * MINUTE)) == 1

    def test_a_queued_slot_is_found_when_the_job_has_finished(self):
        now = factories.server_now()
        job = factories.pending_job()
        schedule = factories.CronScheduleFactory(
            next_run_at=now + MINUTE, queued_slot_at=now, last_job_id=job.id
        )

        assert due(connection) == []
        job.delete()
        assert due(connection) == [schedule.id]

    def test_there_is_a_limit_and_the_first_due_is_the_first(self):
        now = factories.server_now()
        for minutes in (1, 3, 2):
            factories.CronScheduleFactory(name=str(minutes), next_run_at=now - minutes * MINUTE)

        found = lock_due_schedules(connection, limit=2)

        assert [row.name for row in found] == ["3", "2"]

    def test_thousands_of_schedules_that_are_not_due_are_not_read(self, connect):
        raw = connect()
        raw.execute(
            "INSERT INTO cron_schedules (name, job_name, cron_expression, next_run_at) "
            "SELECT n::text, 'tests.noop', '0 6 * * *', now() + n * interval '1 second' "
            "FROM generate_series(1, 5000) AS n"
        )
        raw.execute("ANALYZE cron_schedules")

        plan = explain(raw, "maintain/lock_due_schedules", {"limit": 100})

        assert [node for node in nodes(plan) if node["Node Type"] == "Seq Scan"] == []
        used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
        assert {"cron_schedules_due", "cron_schedules_queued"} <= used

    def test_what_another_process_fires_is_left_to_it(self, connect):
        factories.CronScheduleFactory()
        first, second = connect(), connect()
        with first.transaction():
            assert len(due(first)) == 1
            assert due(second) == []
        assert len(due(second)) == 1


def test_unfinished_jobs_are_told_from_finished_ones():
    pending, running = factories.pending_job(), factories.running_job()
    finished = factories.completed_job()

    found = list_unfinished_jobs(connection, [pending.id, running.id, finished.id, 10**9])

    assert set(found) == {pending.id, running.id}


class TestFireSlots:
    """One job for each slot."""

    def test_a_slot_enqueues_the_job_of_its_schedule(self):
        now = factories.server_now()
        schedule = factories.CronScheduleFactory(tenant_id=5, payload={"a": 1}, payload_version=2)
        values = firing(
            schedule, now - MINUTE, queue="mail", priority=2, max_attempts=7, meta='{"m": 1}'
        )

        (fired,) = fire_slots(connection, [values])

        assert (fired.schedule_id, fired.queue_name, fired.is_pending) == (
            schedule.id,
            "mail",
            True,
        )
        row = ActiveJob.objects.get()
        assert (row.id, row.status) == (fired.job_id, JobStatus.PENDING)
        assert (row.scheduled_at, row.job_name) == (now - MINUTE, "tests.noop")
        assert (row.queue_name, row.tenant_id, row.priority) == ("mail", 5, 2)
        assert (row.payload, row.payload_version) == ({"a": 1}, 2)
        assert (row.max_attempts, row.meta) == (7, {"m": 1})

    def test_the_schedule_has_the_last_word(self):
        schedule = factories.CronScheduleFactory(queue_name="own", priority=-3, max_attempts=1)

        (fired,) = fire_slots(connection, [firing(schedule, factories.server_now())])

        row = ActiveJob.objects.get()
        assert fired.queue_name == row.queue_name == "own"
        assert (row.priority, row.max_attempts) == (-3, 1)

    def test_a_job_with_jitter_waits(self):
        schedule, now = factories.CronScheduleFactory(), factories.server_now()

        (fired,) = fire_slots(connection, [firing(schedule, now, jitter=MINUTE)])

        row = ActiveJob.objects.get()
        assert not fired.is_pending
        assert (row.status, row.scheduled_at) == (JobStatus.SCHEDULED, now + MINUTE)

    def test_a_run_by_hand_is_due_now(self):
        schedule, before = factories.CronScheduleFactory(), factories.server_now()

        fire_slots(connection, [firing(schedule, None)])

        (record,) = list_slots(connection, schedule_id=schedule.id, limit=5)
        assert record.kind == "manual"
        assert before <= record.slot_at <= factories.server_now()

    def test_ids_ascend_with_the_slots(self):
        schedule, now = factories.CronScheduleFactory(), factories.server_now()
        times = [now - minutes * MINUTE for minutes in (5, 4, 3, 2, 1)]

        fired = fire_slots(connection, [firing(schedule, slot) for slot in times])

        found = ActiveJob.objects.order_by("id").values_list("id", "scheduled_at")
        assert list(found) == [(slot.job_id, at) for slot, at in zip(fired, times, strict=True)]

    def test_a_slot_never_fires_again_even_when_its_job_is_gone(self, connect):
        raw, slot = connect(), factories.server_now()
        schedule = factories.CronScheduleFactory()
        fire_slots(raw, [firing(schedule, slot)])
        complete(raw, *claim_jobs(raw).jobs)

        again = fire_slots(raw, [firing(schedule, slot), firing(schedule, slot + MINUTE)])

        assert len(again) == 1
        assert ActiveJob.objects.get().scheduled_at == slot + MINUTE
        assert check_invariants(raw) == []

    def test_the_aging_of_the_queue_applies(self):
        factories.QueueConfigFactory(queue_name="mail", priority_aging=MINUTE)
        schedule = factories.CronScheduleFactory(queue_name="mail")

        fire_slots(connection, [firing(schedule, factories.server_now())])

        assert ActiveJob.objects.get().priority_worth == 60_000

    @pytest.mark.parametrize("commits", [True, False])
    def test_two_at_once_fire_it_once(self, connect, background, commits):
        schedule, slot = factories.CronScheduleFactory(), factories.server_now()
        first, second, observer = connect(), connect(), connect()
        with first.transaction(force_rollback=not commits):
            fire_slots(first, [firing(schedule, slot)])
            waiting = background(fire_slots, second, [firing(schedule, slot)])
            wait_until_blocked(observer, second)

        assert (waiting.result() == []) is commits
        assert ActiveJob.objects.count() == 1
        assert check_invariants(observer) == []


def test_a_skipped_slot_is_recorded_and_never_fires():
    schedule, slot = factories.CronScheduleFactory(), factories.server_now()
    skip_slots(connection, [(schedule.id, slot)])
    skip_slots(connection, [(schedule.id, slot)])

    assert fire_slots(connection, [firing(schedule, slot)]) == []
    (record,) = list_slots(connection, schedule_id=schedule.id, limit=5)
    assert (record.kind, record.job_id, record.status) == ("skipped", None, None)


class TestAdvanceSchedules:
    """The next slot."""

    def test_a_schedule_moves_on(self):
        one, other = factories.CronScheduleFactory.create_batch(2)
        now = factories.server_now()

        advance_schedules(
            connection,
            [
                Advance(
                    id=one.id,
                    handled_until=now,
                    next_run_at=now + MINUTE,
                    queued_slot_at=now,
                    job_id=7,
                ),
                Advance(id=other.id, handled_until=None, next_run_at=now, problem="bad"),
            ],
        )

        one.refresh_from_db()
        assert (one.last_slot_at, one.next_run_at, one.queued_slot_at) == (now, now + MINUTE, now)
        assert (one.last_job_id, one.problem) == (7, "")
        assert now <= one.last_run_at <= factories.server_now()
        other.refresh_from_db()
        assert (other.last_slot_at, other.next_run_at, other.problem) == (None, now, "bad")

    def test_what_is_known_of_the_last_run_stays_when_nothing_was_fired(self):
        now = factories.server_now()
        schedule = factories.CronScheduleFactory(last_run_at=now, last_job_id=7)

        advance = Advance(id=schedule.id, handled_until=now, next_run_at=now + MINUTE)
        advance_schedules(connection, [advance])

        schedule.refresh_from_db()
        assert (schedule.last_run_at, schedule.last_job_id) == (now, 7)


def test_old_records_are_pruned_in_batches():
    schedule, now = factories.CronScheduleFactory(), factories.server_now()
    skip_slots(connection, [(schedule.id, now - n * MINUTE) for n in range(3)])

    def prune(limit, **later):
        later = now + timedelta(**later)
        return len(prune_slots(connection, retention=10 * MINUTE, limit=limit, now=later))

    assert [prune(2, minutes=9), prune(2, minutes=11), prune(2, minutes=11)] == [0, 2, 1]


class TestListSlots:
    """What became of a schedule's slots."""

    def test_the_jobs_are_found_wherever_they_are(self, connect):
        raw, now = connect(), factories.server_now()
        schedule = factories.CronScheduleFactory()
        fire_slots(raw, [firing(schedule, now - 2 * MINUTE)])
        complete(raw, *claim_jobs(raw).jobs)
        fire_slots(raw, [firing(schedule, now - MINUTE)])
        gone = fire_slots(raw, [firing(schedule, now)])
        ActiveJob.objects.filter(id=gone[0].job_id).delete()

        found = list_slots(connection, schedule_id=schedule.id, limit=10)

        assert [(record.slot_at, record.status) for record in found] == [
            (now, None),
            (now - MINUTE, "pending"),
            (now - 2 * MINUTE, "completed"),
        ]
        assert len(list_slots(connection, schedule_id=schedule.id, limit=1)) == 1


class TestListLateSchedules:
    """Who has not fired in time."""

    def test_the_late_and_the_broken_are_found(self):
        now = factories.server_now()
        factories.CronScheduleFactory(name="in time", next_run_at=now - MINUTE)
        factories.CronScheduleFactory(name="new", active_since=now - MINUTE)
        factories.CronScheduleFactory(name="late", next_run_at=now - 3 * MINUTE, tenant_id=3)
        factories.CronScheduleFactory(name="never seen", active_since=now - 4 * MINUTE)
        factories.CronScheduleFactory(name="broken", next_run_at=now + MINUTE, problem="bad")
        factories.CronScheduleFactory(
            name="paused", next_run_at=now - 3 * MINUTE, enabled=False, problem="bad"
        )
        factories.CronScheduleFactory(name="removed", next_run_at=now - 3 * MINUTE, removed_at=now)

        found = list_late_schedules(connection, patience=2 * MINUTE, limit=10, now=now)

        assert [(late.name, late.tenant_id, late.late_by, late.problem) for late in found] == [
            ("never seen", 0, 4 * MINUTE, ""),
            ("late", 3, 3 * MINUTE, ""),
            ("broken", 0, timedelta(0), "bad"),
        ]
        assert found[1].due_at == now - 3 * MINUTE
        assert len(list_late_schedules(connection, patience=MINUTE, limit=1, now=now)) == 1


def test_names_are_unique_for_each_tenant():
    from django.db import IntegrityError, transaction

    factories.CronScheduleFactory(name="report", tenant_id=1)
    factories.CronScheduleFactory(name="report", tenant_id=2)
    with pytest.raises(IntegrityError), transaction.atomic():
        factories.CronScheduleFactory(name="report", tenant_id=2)

    assert CronSchedule.objects.count() == 2
