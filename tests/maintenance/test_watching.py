"""Schedules that have not fired in time are told of, once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs import signals
from django_pgjobs.maintenance.watching import ScheduleWatch
from django_pgjobs.models import CronSchedule
from tests import factories

MINUTE = timedelta(minutes=1)


@pytest.fixture
def heard():
    names = []

    def receiver(schedule, **kwargs):
        names.append((schedule.name, schedule.problem))

    signals.schedule_late.connect(receiver)
    yield names
    signals.schedule_late.disconnect(receiver)


def test_nothing_is_late(connection, heard):
    factories.CronScheduleFactory(next_run_at=factories.server_now() + MINUTE)

    assert ScheduleWatch().run_once(connection, batch_size=10).touched == []
    assert heard == []


def test_a_late_schedule_is_told_of_once_for_each_slot(connection, heard, caplog):
    due = factories.server_now() - 10 * MINUTE
    factories.CronScheduleFactory(name="payroll", next_run_at=due)
    watch = ScheduleWatch()

    first = watch.run_once(connection, batch_size=10)
    again = watch.run_once(connection, batch_size=10)

    assert (first.touched, again.touched) == (["payroll"], [])
    assert "schedule late: name='payroll' tenant=0" in caplog.text
    CronSchedule.objects.update(next_run_at=due + MINUTE)
    watch.run_once(connection, batch_size=10)
    assert heard == [("payroll", "")] * 2


def test_a_schedule_that_cannot_be_fired_is_told_of(connection, heard):
    next_look = factories.server_now() + MINUTE
    factories.CronScheduleFactory(name="broken", next_run_at=next_look, problem="no such zone")

    ScheduleWatch().run_once(connection, batch_size=10)

    assert heard == [("broken", "no such zone")]


def test_a_receiver_that_raises_keeps_nothing_from_being_told(connection, heard):
    def failing(**kwargs):
        raise RuntimeError

    factories.CronScheduleFactory.create_batch(2, active_since=factories.server_now() - 9 * MINUTE)
    signals.schedule_late.connect(failing)
    try:
        ScheduleWatch().run_once(connection, batch_size=10)
    finally:
        signals.schedule_late.disconnect(failing)

    assert len(heard) == 2
