"""Schedules in code: declared at import, refused when they make no sense."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from django_pgjobs import job, schedule
from django_pgjobs.definitions.registry import registry
from django_pgjobs.exceptions import InvalidHandler, InvalidSchedule

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_definitions", {})
    monkeypatch.setattr(registry, "_schedules", {})


def report(kind: str = "long", amount: Decimal | None = None) -> None:
    """Do nothing."""


def test_a_job_may_have_a_schedule():
    job(name="shop.report", cron="0 6 * * *", timezone="Europe/Berlin", overlap="skip")(report)

    (declared,) = registry.schedules
    assert (declared.name, declared.job_name) == ("shop.report", "shop.report")
    assert (declared.options.cron, declared.options.timezone) == ("0 6 * * *", "Europe/Berlin")
    assert (declared.options.overlap, declared.payload) == ("skip", "{}")


def test_a_job_may_have_several():
    made = job(name="shop.report", cron="@daily", queue="own", payload_version=2)(report)
    schedule(
        made,
        name="weekly report",
        cron="0 6 * * 1",
        arguments={"kind": "short", "amount": Decimal("1.5")},
        tenant=7,
        priority=3,
        max_attempts=1,
        catch_up="collapse",
        catch_up_limit=10,
        jitter=HOUR,
    )

    daily, weekly = registry.schedules
    assert daily.key == ("shop.report", 0)
    assert weekly.key == ("weekly report", 7)
    assert weekly.payload == '{"kind":"short","amount":{"$decimal":"1.5"}}'
    assert (weekly.payload_version, weekly.options.queue) == (2, "own")
    assert (weekly.options.priority, weekly.options.max_attempts) == (3, 1)


def test_a_module_may_be_imported_twice():
    for _ in range(2):
        job(name="shop.report", cron="@daily")(report)

    assert len(registry.schedules) == 1


def test_two_schedules_need_two_names():
    made = job(name="shop.report", cron="@daily")(report)

    with pytest.raises(InvalidSchedule) as caught:
        schedule(made, cron="@weekly")

    assert str(caught.value) == (
        "Two schedules are called 'shop.report', of shop.report and of shop.report. Give one of "
        "them another name: schedule(…, name=…)."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cron": "60 * * * *"}, "The cron expression '60 * * * *' is invalid: "),
        ({"cron": "0 0 30 2 *"}, "The cron expression '0 0 30 2 *' is invalid: "),
        ({"timezone": "Mars/Olympus"}, "There is no time zone 'Mars/Olympus'."),
        ({"timezone": ""}, "There is no time zone ''."),
        ({"name": ""}, "The name of a schedule must be text of 1 to 255 bytes"),
        ({"name": "x" * 256}, "The name of a schedule must be text of 1 to 255 bytes"),
        ({"arguments": {"knd": "short"}}, "The schedule 'shop.report': The arguments do not fit"),
        ({"arguments": {"kind": {1, 2}}}, "The schedule 'shop.report': "),
        ({"arguments": ["short"]}, "The schedule 'shop.report': arguments must be a dict"),
        ({"catch_up": "all"}, "catch_up must be one of skip, catch_up, collapse, not 'all'."),
        ({"catch_up_limit": 0}, "catch_up_limit must be 1 to 1000, not 0."),
        ({"catch_up_limit": True}, "catch_up_limit must be 1 to 1000, not True."),
        ({"overlap": "no"}, "overlap must be one of allow, skip, queue_one, not 'no'."),
        (
            {"catch_up": "catch_up", "overlap": "skip"},
            "A schedule that catches up with each missed slot needs overlap='allow'",
        ),
        ({"jitter": 60}, "jitter must be a timedelta of 0 to 24 hours, not 60."),
        ({"jitter": timedelta(days=2)}, "jitter must be a timedelta of 0 to 24 hours"),
        ({"tenant": "acme"}, "tenant must be a whole number of at most 63 bits, not 'acme'."),
        ({"queue": "a b"}, "queue must be 1 to 63 letters"),
        ({"priority": 10**6}, "priority must be a whole number"),
        ({"max_attempts": 0}, "max_attempts must be 1 to"),
        ({"timezon": "UTC"}, "A schedule has no option 'timezon'. Did you mean 'timezone'?"),
    ],
)
def test_what_makes_no_sense_is_refused_at_import(options, message):
    made = job(name="shop.report")(report)

    with pytest.raises(InvalidSchedule) as caught:
        schedule(made, **{"cron": "@daily", **options})

    assert str(caught.value).startswith(message)
    assert registry.schedules == []


def test_a_job_with_options_of_a_schedule_needs_a_time():
    with pytest.raises(InvalidSchedule, match="needs cron, such as cron='0 6"):
        job(name="shop.report", timezone="UTC")(report)


def test_a_job_that_needs_arguments_needs_a_schedule_that_has_them():
    def send(address: str) -> None:
        """Do nothing."""

    with pytest.raises(InvalidSchedule, match="missing a required argument: 'address'"):
        job(name="shop.send", cron="@daily")(send)


def test_only_jobs_have_schedules():
    with pytest.raises(InvalidSchedule, match="schedule\\(\\) takes what @job returned"):
        schedule(report, cron="@daily")


def test_a_misspelt_option_of_a_job_is_guessed():
    with pytest.raises(InvalidHandler, match="Did you mean 'cron'"):
        job(name="shop.report", crn="@daily")(report)
