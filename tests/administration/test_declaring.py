"""What code declares is what the database has, after a deploy."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps
from django.core.management import call_command

from django_pgjobs.administration.declaring import compare, synchronise
from django_pgjobs.apps import _write_schedules
from django_pgjobs.conf import get_settings
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry, registry
from django_pgjobs.definitions.schedules import ScheduleOptions, declared
from django_pgjobs.exceptions import InvalidSchedule
from django_pgjobs.maintenance.scheduler import Scheduler
from django_pgjobs.models import CronSchedule
from tests import factories
from tests.maintenance.test_scheduler import DEFAULTS

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def report(kind: str = "long") -> None:
    """Do nothing."""


JOB = JobDefinition(name="shop.report", function=report, queue="reports", max_attempts=7)


def code(**schedules):
    """Return the registry of code that declares schedules, by name."""
    declaring = Registry()
    for name, options in schedules.items():
        arguments = options.pop("arguments", {})
        declaring.add_schedule(
            declared(
                JOB,
                ScheduleOptions(**{"cron": "0 6 * * *", **options}),
                name=name,
                arguments=arguments,
                max_payload_bytes=10**9,
            )
        )
    return declaring


def row(name="daily", **where):
    return CronSchedule.objects.get(name=name, **where)


def test_a_new_schedule_is_written_with_all_that_maintenance_needs(settings):
    settings.TIME_ZONE = "Europe/Vienna"
    before = factories.server_now()

    changes = synchronise(
        code(
            daily={
                "arguments": {"kind": "short"},
                "tenant": 4,
                "catch_up": "collapse",
                "catch_up_limit": 5,
                "overlap": "skip",
                "jitter": HOUR,
            }
        )
    )

    assert str(changes) == "created: daily"
    schedule = row()
    assert (schedule.owner, schedule.enabled, schedule.tenant_id) == ("project", True, 4)
    assert (schedule.job_name, schedule.payload) == ("shop.report", {"kind": "short"})
    assert (schedule.cron_expression, schedule.timezone) == ("0 6 * * *", "Europe/Vienna")
    assert (schedule.queue_name, schedule.priority, schedule.max_attempts) == ("reports", 0, 7)
    assert (schedule.catch_up, schedule.catch_up_limit) == ("collapse", 5)
    assert (schedule.overlap, schedule.jitter) == ("skip", HOUR)
    assert before <= schedule.active_since <= factories.server_now()


def test_the_same_again_changes_nothing():
    synchronise(code(daily={}))
    schedule = row()
    CronSchedule.objects.update(next_run_at=schedule.active_since)

    changes = synchronise(code(daily={}))

    assert not changes
    assert row().next_run_at == schedule.active_since


def test_a_changed_time_fires_no_slot_from_before():
    synchronise(code(daily={}))
    past = factories.server_now() - 9 * HOUR
    CronSchedule.objects.update(active_since=past, next_run_at=past, problem="bad")

    changes = synchronise(code(daily={"cron": "0 7 * * *"}))

    assert str(changes) == "changed: daily"
    schedule = row()
    assert (schedule.cron_expression, schedule.next_run_at) == ("0 7 * * *", None)
    assert schedule.active_since > past + 8 * HOUR
    assert schedule.problem == ""


def test_other_changes_do_not_touch_its_slots():
    synchronise(code(daily={}))
    past = factories.server_now() - 9 * HOUR
    CronSchedule.objects.update(active_since=past)

    synchronise(code(daily={"arguments": {"kind": "short"}}))

    assert (row().payload, row().active_since) == ({"kind": "short"}, past)


def test_an_operators_pause_is_kept():
    synchronise(code(daily={}))
    CronSchedule.objects.update(enabled=False)

    synchronise(code(daily={"cron": "0 7 * * *"}))
    synchronise(code())
    synchronise(code(daily={}))

    assert not row().enabled


@pytest.mark.django_db(transaction=True)
def test_a_schedule_removed_from_code_produces_no_more_jobs(connection):
    synchronise(code(daily={}, weekly={"cron": "0 6 * * 1"}))
    changes = synchronise(code(weekly={"cron": "0 6 * * 1"}))
    scheduler = Scheduler(registry=Registry(), defaults=DEFAULTS)

    fired = scheduler.run_once(
        connection, batch_size=10, now=factories.server_now() + timedelta(days=8)
    )

    assert str(changes) == "removed: daily"
    assert row().removed_at is not None
    assert len(fired.touched) == 1
    assert not synchronise(code(weekly={"cron": "0 6 * * 1"}))


def test_one_that_comes_back_fires_no_slot_from_meanwhile():
    synchronise(code(daily={}))
    synchronise(code())
    past = factories.server_now() - 9 * HOUR
    CronSchedule.objects.update(active_since=past, last_slot_at=past)

    changes = synchronise(code(daily={}))

    assert str(changes) == "restored: daily"
    assert row().removed_at is None
    assert row().active_since > past + 8 * HOUR
    assert row().last_slot_at == past


def test_what_people_made_is_left_alone():
    factories.CronScheduleFactory(name="daily", cron_expression="0 1 * * *")
    factories.CronScheduleFactory(name="other")

    changes = synchronise(code(daily={}))

    assert changes.taken == ["daily"]
    assert row().cron_expression == "0 1 * * *"
    assert not CronSchedule.objects.exclude(removed_at=None).exists()


def test_what_another_code_base_declares_is_left_alone(settings):
    synchronise(code(daily={}))
    settings.PGJOBS = {"SCHEDULE_OWNER": "billing"}

    changes = synchronise(code(monthly={"cron": "0 6 1 * *"}))

    assert str(changes) == "created: monthly"
    assert row().removed_at is None
    assert row("monthly").owner == "billing"


def test_tenants_may_have_schedules_of_one_name():
    declaring = code(daily={"tenant": 1})
    other = code(daily={"tenant": 2, "timezone": "Asia/Tokyo"})
    declaring.add_schedule(other.schedules[0])

    synchronise(declaring)

    assert row(tenant_id=1).timezone == "UTC"
    assert row(tenant_id=2).timezone == "Asia/Tokyo"


def test_arguments_that_take_too_much_room_are_refused(settings):
    settings.PGJOBS = {"MAX_PAYLOAD_BYTES": 30}

    with pytest.raises(InvalidSchedule, match="take 33 bytes; at most 30"):
        synchronise(code(daily={"arguments": {"kind": "x" * 22}}))

    assert not CronSchedule.objects.exists()


def test_a_comparison_writes_nothing():
    assert str(compare(code(daily={}))) == "created: daily"
    assert not CronSchedule.objects.exists()


class TestMigrate:
    """``migrate`` writes what the code declares."""

    @pytest.fixture(autouse=True)
    def declared_schedule(self, monkeypatch):
        monkeypatch.setattr(registry, "_schedules", code(daily={})._schedules)

    def test_it_writes_them_and_says_so(self, capsys):
        call_command("migrate", verbosity=1)

        assert row().owner == "project"
        assert "Schedules declared in code: created: daily" in capsys.readouterr().out

    def test_other_databases_are_left_alone(self):
        _write_schedules(using="other", apps=apps)

        assert not CronSchedule.objects.exists()

    def test_without_our_tables_it_does_nothing(self):
        from django.apps.registry import Apps

        _write_schedules(using=get_settings().database, apps=Apps())

        assert not CronSchedule.objects.exists()
