"""The page of a schedule: when it is due, what became of its slots, and acts on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection

from django_pgjobs.models import ActiveJob, CronSchedule
from django_pgjobs.store.schedules import fire_slots, skip_slots
from tests import factories
from tests.store.calls import firing

from .conftest import messages_of, url

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def act(client, action, *schedules):
    keys = [schedule.pk for schedule in schedules]
    data = {"action": action, "_selected_action": keys, "index": 0}
    return client.post(url("cronschedule"), data, follow=True)


def page_of(client, schedule):
    return client.get(url("cronschedule", "change", schedule.pk)).content.decode()


def test_the_page_shows_the_next_times_with_notes(operator):
    schedule = factories.CronScheduleFactory(
        cron_expression="30 2 29 3 *", timezone="Europe/Berlin"
    )

    page = page_of(operator, schedule)

    assert "-03-29 02:30:00 CEST" in page
    schedule.cron_expression = "30 2 25-31 3 sun"
    schedule.save()
    assert "There is no 02:30 on this day" in page_of(operator, schedule)


def test_the_page_shows_what_became_of_the_last_slots(operator):
    now = factories.server_now()
    schedule = factories.CronScheduleFactory()
    (fired,) = fire_slots(connection, [firing(schedule, now - MINUTE)])
    (manual,) = fire_slots(connection, [firing(schedule, None)])
    skip_slots(connection, [(schedule.pk, now - 2 * MINUTE)])
    ActiveJob.objects.filter(pk=manual.job_id).delete()

    page = page_of(operator, schedule)

    assert f"job {fired.job_id}: pending" in page
    assert f"job {manual.job_id}: gone, by hand" in page
    assert "skipped: the last job was unfinished" in page


def test_the_list_shows_states_and_outcomes(operator):
    now = factories.server_now()
    dead = factories.dead_job()
    factories.CronScheduleFactory(last_job_id=dead.pk, last_run_at=dead.created_at)
    factories.CronScheduleFactory(last_job_id=factories.pending_job().pk, last_run_at=now)
    factories.CronScheduleFactory(enabled=False)
    factories.CronScheduleFactory(removed_at=now)
    factories.CronScheduleFactory(problem="<b>no zone</b>")

    page = operator.get(url("cronschedule")).content.decode()

    for text in ("dead", "pending", "paused", "removed from code", "&lt;b&gt;no zone"):
        assert f">{text}" in page


def test_the_form_begins_with_the_zone_of_the_project(operator, settings):
    settings.TIME_ZONE = "Asia/Tokyo"

    assert 'value="Asia/Tokyo"' in operator.get(url("cronschedule", "add")).content.decode()


def test_schedules_are_paused_and_resumed(operator):
    one = factories.CronScheduleFactory()
    other = factories.CronScheduleFactory(enabled=False)

    paused = act(operator, "pause_schedules", one, other)
    assert not CronSchedule.objects.filter(enabled=True).exists()
    resumed = act(operator, "resume_schedules", one, other)

    assert messages_of(paused) == ["Paused. 1 schedule."]
    assert messages_of(resumed) == ["Resumed. 2 schedules."]
    entries = LogEntry.objects.values_list("object_id", "change_message")
    assert sorted(entries) == sorted(
        [(str(one.pk), "Paused."), (str(one.pk), "Resumed."), (str(other.pk), "Resumed.")]
    )


def test_schedules_are_run_at_once_but_do_not_overlap(operator):
    schedule = factories.CronScheduleFactory(overlap="skip", name="payroll")

    first = act(operator, "run_schedules", schedule)
    second = act(operator, "run_schedules", schedule)

    assert messages_of(first) == ["Run at once. 1 schedule."]
    assert messages_of(second)[0].startswith("The last job of the schedule 'payroll'")
    assert ActiveJob.objects.count() == 1


def test_what_code_declares_is_changed_there(operator):
    declared = factories.CronScheduleFactory(owner="project", cron_expression="0 0 1 1 *")
    removed = factories.CronScheduleFactory(owner="project", removed_at=factories.server_now())

    assert 'name="cron_expression"' not in page_of(operator, declared)
    changing = operator.post(url("cronschedule", "change", declared.pk), {"name": "x"})
    deleting = [
        operator.post(url("cronschedule", "delete", row.pk), {"post": "yes"}).status_code
        for row in (declared, removed)
    ]

    assert (changing.status_code, deleting) == (403, [403, 302])
    assert CronSchedule.objects.get() == declared
    assert messages_of(act(operator, "pause_schedules", declared))[-1] == "Paused. 1 schedule."


def test_the_version_of_the_arguments_is_that_of_the_job(operator, monkeypatch):
    from django_pgjobs.definitions.definition import JobDefinition
    from django_pgjobs.definitions.registry import registry

    from .test_config import SCHEDULE

    def take(number: int = 0) -> None:
        """Do nothing."""

    registry.add(JobDefinition(name="tests.versioned", function=take, payload_version=4))

    values = SCHEDULE | {"job_name": "tests.versioned"}
    operator.post(url("cronschedule", "add"), values)

    assert CronSchedule.objects.get().payload_version == 4


@pytest.mark.django_db(transaction=True)
def test_the_pages_work_without_time_zones(tables, operator, settings):
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    connection.close()
    schedule = factories.CronScheduleFactory(timezone="Asia/Tokyo")
    act(operator, "run_schedules", schedule)

    assert operator.get(url("cronschedule")).status_code == 200
    assert "by hand" in page_of(operator, schedule)
    assert messages_of(act(operator, "pause_schedules", schedule)) == ["Paused. 1 schedule."]
    assert messages_of(act(operator, "resume_schedules", schedule)) == ["Resumed. 1 schedule."]
    connection.close()
