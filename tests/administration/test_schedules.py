"""What may be done to schedules, by whom, and what it does to their slots."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection

from django_pgjobs.administration.schedules import (
    pause_schedule,
    put_schedule,
    resume_schedule,
    run_schedule,
)
from django_pgjobs.exceptions import (
    InvalidSchedule,
    OperationError,
    PermissionRequired,
    ScheduleNotFound,
    UnknownJob,
)
from django_pgjobs.models import ActiveJob, CronSchedule
from django_pgjobs.store.schedules import list_slots
from tests import factories
from tests.app.jobs import add, send

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
ACTS = {
    "pause_schedule": pause_schedule,
    "resume_schedule": resume_schedule,
    "run_schedule": run_schedule,
}


def user(*permissions):
    wanted = {f"django_pgjobs.{permission}" for permission in permissions}
    return SimpleNamespace(has_perm=wanted.__contains__, get_username=lambda: "ann")


def old_schedule(**fields):
    past = factories.server_now() - 9 * HOUR
    return factories.CronScheduleFactory(
        **{"active_since": past, "next_run_at": past, "queued_slot_at": past, **fields}
    )


def test_each_act_needs_its_permission():
    schedule = old_schedule()
    allowed = user("pause_schedule", "run_schedule")
    for act in ACTS.values():
        with pytest.raises(PermissionRequired):
            act(user("change_cronschedule"), schedule.pk)
    with pytest.raises(PermissionRequired):
        put_schedule(allowed, add, name="sum", cron="@daily", arguments={"left": 1})

    assert pause_schedule(allowed, schedule.pk)
    assert resume_schedule(allowed, schedule.pk)
    assert run_schedule(allowed, schedule.pk)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_schedule_that_does_not_exist_is_told_of(act):
    with pytest.raises(ScheduleNotFound, match="There is no schedule 77"):
        act(None, 77)


class TestPause:
    """Slots that come meanwhile never fire."""

    def test_pausing_keeps_what_was_fired_and_forgets_what_waits(self):
        schedule = old_schedule(last_job_id=7)

        assert pause_schedule(None, schedule.pk)
        assert not pause_schedule(None, schedule.pk)

        schedule.refresh_from_db()
        assert (schedule.enabled, schedule.queued_slot_at) == (False, None)
        assert schedule.last_job_id == 7

    def test_resuming_begins_anew(self):
        schedule = old_schedule(enabled=False, problem="bad")
        before = factories.server_now()

        assert resume_schedule(None, schedule.pk)
        assert not resume_schedule(None, schedule.pk)

        schedule.refresh_from_db()
        assert (schedule.enabled, schedule.next_run_at, schedule.problem) == (True, None, "")
        assert schedule.active_since >= before


class TestRun:
    """By hand, beside the slots."""

    def test_the_job_is_enqueued_at_once(self):
        schedule = old_schedule(
            job_name="tests.send", payload={"address": "a"}, tenant_id=3, enabled=False
        )

        job_id = run_schedule(None, schedule.pk)

        job = ActiveJob.objects.get()
        assert (job.pk, job.status, job.tenant_id) == (job_id, "pending", 3)
        assert (job.queue_name, job.priority, job.max_attempts) == ("mail", 5, 7)
        assert job.meta == {"schedule": schedule.name}
        schedule.refresh_from_db()
        assert schedule.last_job_id == job_id
        assert schedule.last_slot_at is None
        (record,) = list_slots(connection, schedule_id=schedule.pk, limit=5)
        assert (record.kind, record.job_id) == ("manual", job_id)

    def test_twice_is_two_jobs(self):
        schedule = old_schedule()

        assert run_schedule(None, schedule.pk) != run_schedule(None, schedule.pk)

    @pytest.mark.parametrize("overlap", ["skip", "queue_one"])
    def test_jobs_that_must_not_overlap_do_not(self, overlap):
        schedule = old_schedule(name="payroll", overlap=overlap)
        job_id = run_schedule(None, schedule.pk)

        with pytest.raises(OperationError) as caught:
            run_schedule(None, schedule.pk)

        assert str(caught.value) == (
            f"The last job of the schedule 'payroll', {job_id}, is unfinished, and its jobs must "
            "not overlap. Wait for it, or cancel it."
        )
        ActiveJob.objects.all().delete()
        assert run_schedule(None, schedule.pk)


class TestPut:
    """Schedules that are data."""

    def put(self, **options):
        defaults = {"name": "sum", "cron": "0 6 * * *", "arguments": {"left": 1}}
        return put_schedule(None, add, **{**defaults, **options})

    def test_each_tenant_has_its_own_in_its_own_zone(self):
        tokyo = self.put(tenant=1, timezone="Asia/Tokyo")
        lima = self.put(tenant=2, timezone="America/Lima")

        assert tokyo.pk != lima.pk
        assert (tokyo.name, tokyo.tenant_id, tokyo.timezone) == ("sum", 1, "Asia/Tokyo")
        assert (tokyo.job_name, tokyo.payload, tokyo.owner) == ("tests.add", {"left": 1}, "")

    def test_the_job_may_be_named(self):
        row = put_schedule(None, send.name, name="s", cron="@daily", arguments={"address": "a"})

        assert (row.job_name, row.payload_version, row.queue_name) == ("tests.send", 2, "mail")
        with pytest.raises(UnknownJob):
            put_schedule(None, "tests.sendd", name="s", cron="@daily")

    def test_the_same_again_changes_nothing(self):
        first = self.put()
        CronSchedule.objects.update(next_run_at=first.active_since)

        again = self.put()

        assert (again.pk, again.active_since) == (first.pk, first.active_since)
        assert again.next_run_at == first.active_since

    def test_a_new_time_fires_no_slot_from_before(self):
        past = factories.server_now() - 9 * HOUR
        self.put()
        CronSchedule.objects.update(active_since=past, next_run_at=past)

        row = self.put(cron="0 7 * * *")

        assert (row.cron_expression, row.next_run_at) == ("0 7 * * *", None)
        assert row.active_since > past + 8 * HOUR

    def test_a_pause_is_kept(self):
        self.put()
        CronSchedule.objects.update(enabled=False)

        assert not self.put(arguments={"left": 2}).enabled

    def test_what_makes_no_sense_is_refused(self):
        with pytest.raises(InvalidSchedule):
            self.put(cron="60 * * * *")
        with pytest.raises(InvalidSchedule):
            self.put(arguments={})

        assert not CronSchedule.objects.exists()

    def test_what_code_declares_is_changed_in_code(self):
        factories.CronScheduleFactory(name="sum", owner="project")

        with pytest.raises(OperationError, match="declared in the code of 'project'"):
            self.put()
