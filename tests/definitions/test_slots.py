"""What a handler learns of the slot that its job is for."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Event

from django_pgjobs import JobContext
from django_pgjobs.definitions.slots import Defaults, ScheduledSlot, firing_of
from django_pgjobs.maintenance.due import Missed
from django_pgjobs.store.schedules import fire_slots
from django_pgjobs.worker.attempts import context_of
from tests import factories
from tests.store import calls

HOURS = [datetime(2026, 6, 15, hour, tzinfo=UTC) for hour in range(5)]
DEFAULTS = Defaults(queue="default", max_attempts=3)


def slot_of(meta):
    return JobContext(id=1, name="n", _meta=meta).slot


def test_a_job_of_no_schedule_has_no_slot():
    assert slot_of(None) is None
    assert slot_of('{"tags": ["schedule of the day"]}') is None


def test_a_job_knows_its_schedule_and_its_slot():
    firing = firing_of(1, "daily", HOURS[3], None, DEFAULTS)

    assert slot_of(firing.meta) == ScheduledSlot(schedule="daily", at=HOURS[3])


def test_a_run_by_hand_has_no_instant():
    firing = firing_of(1, "daily", None, None, DEFAULTS)

    assert slot_of(firing.meta) == ScheduledSlot(schedule="daily", at=None)


def test_a_collapsed_job_knows_the_slots_that_it_stands_for():
    missed = Missed(tuple(HOURS[:2]), is_all=False)
    firing = firing_of(1, "daily", HOURS[3], None, DEFAULTS, missed=missed)

    slot = slot_of(firing.meta)

    assert (slot.missed, slot.is_all) == (tuple(HOURS[:2]), False)


def test_a_worker_passes_the_slot_on(connection):
    schedule, now = factories.CronScheduleFactory(name="daily"), factories.server_now()
    fire_slots(connection, [firing_of(schedule.pk, "daily", now, None, DEFAULTS)])
    (job,) = calls.claim_jobs(connection).jobs

    context = context_of(job, "worker-a", Event())

    assert context.slot == ScheduledSlot(schedule="daily", at=now)
