"""``pgjobs_schedules``: when they are due, and acts on them."""

from __future__ import annotations

import re

import pytest
from django.core.management import CommandError, call_command

from django_pgjobs.administration.declaring import synchronise
from django_pgjobs.definitions.registry import registry
from django_pgjobs.models import ActiveJob, CronSchedule
from tests import factories

pytestmark = pytest.mark.usefixtures("tables")

TIME = r"  \w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ [+-]\d{4}"


@pytest.fixture
def tell(capsys):
    """Return a function that runs the command and returns what it wrote, by line."""

    def tell(*arguments):
        call_command("pgjobs_schedules", *arguments)
        return capsys.readouterr().out.splitlines()

    return tell


def test_schedules_are_shown_with_their_next_times(tell):
    factories.CronScheduleFactory(name="nightly", timezone="Europe/Vienna", tenant_id=3)
    factories.CronScheduleFactory(name="off", enabled=False)
    factories.CronScheduleFactory(name="gone", removed_at=factories.server_now())
    factories.CronScheduleFactory(name="bad", problem="No such zone.")

    lines = tell("--next", "2")

    assert lines[:2] == ["bad: tests.noop at * * * * * (UTC)", "  No such zone."]
    assert lines[2:4] == ["gone: tests.noop at * * * * * (UTC)", "  removed from code"]
    assert lines[4] == "nightly of tenant 3: tests.noop at * * * * * (Europe/Vienna)"
    assert re.fullmatch(TIME, lines[5])
    assert re.fullmatch(TIME, lines[6])
    assert lines[7:] == ["off: tests.noop at * * * * * (UTC)", "  paused"]


def test_some_of_them_are_shown(tell):
    for name, tenant in [("one", 1), ("one", 2), ("two", 1)]:
        factories.CronScheduleFactory(name=name, tenant_id=tenant)

    assert len(tell("one")) == 4
    assert len(tell("one", "--tenant", "2")) == 2
    with pytest.raises(CommandError, match="There is no schedule called three, zero"):
        tell("one", "zero", "three")


def test_an_expression_is_tried_out(tell):
    lines = tell("--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--next", "366")

    assert len(lines) == 366
    assert len([line for line in lines if "There is no 02:30 on this day" in line]) in {1, 2}
    with pytest.raises(CommandError, match="The cron expression '60"):
        tell("--cron", "60 * * * *")


def test_schedules_are_paused_and_resumed(tell):
    factories.CronScheduleFactory(name="nightly")

    assert tell("nightly", "--pause")[1] == "  paused"
    assert not CronSchedule.objects.get().enabled
    assert re.fullmatch(TIME, tell("nightly", "--resume")[1])
    assert CronSchedule.objects.get().enabled


def test_schedules_are_run(tell):
    factories.CronScheduleFactory(name="nightly", overlap="skip")

    tell("nightly", "--run")

    assert ActiveJob.objects.get().meta == {"schedule": "nightly"}
    with pytest.raises(CommandError, match="is unfinished"):
        tell("nightly", "--run")


def test_acts_are_not_done_to_all(tell):
    factories.CronScheduleFactory()

    with pytest.raises(CommandError, match="Name the schedules"):
        tell("--pause")
    assert CronSchedule.objects.get().enabled


def test_what_code_declares_is_compared_and_written(tell, monkeypatch):
    from tests.administration.test_declaring import code

    monkeypatch.setattr(registry, "_schedules", code(daily={})._schedules)

    assert tell("--diff") == ["created: daily"]
    assert not CronSchedule.objects.exists()
    assert tell("--sync") == ["created: daily"]
    assert CronSchedule.objects.get().name == "daily"
    assert tell("--diff") == ["-"]


def test_maintenance_tells_what_code_declares_otherwise(tell, monkeypatch, caplog):
    from tests.administration.test_declaring import code

    synchronise(code(weekly={}, old={}))
    declared = code(daily={}, weekly={"cron": "0 6 * * 1"})
    monkeypatch.setattr(registry, "_schedules", declared._schedules)

    call_command("pgjobs_maintain", "--once")

    assert "otherwise than the database has them: daily, weekly. Run manage.py" in caplog.text
    assert "old" not in caplog.text
    assert CronSchedule.objects.count() == 2
    caplog.clear()
    synchronise(declared)
    call_command("pgjobs_maintain", "--once")
    assert "otherwise" not in caplog.text
