"""When a cron expression is due, on the wall clock of its zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from django_pgjobs.definitions.schedules import InvalidSchedule, check_schedule, next_slot


def test_the_next_slot_is_after_the_instant_and_in_utc():
    slot = next_slot("*/15 * * * *", "UTC", after=datetime(2026, 7, 1, 12, 15, tzinfo=UTC))

    assert slot == datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
    assert slot.tzinfo is UTC


def test_the_expression_means_the_clock_of_its_zone():
    after = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=9)))

    slot = next_slot("30 8 * * *", "Europe/Berlin", after=after)

    assert slot == datetime(2026, 7, 1, 6, 30, tzinfo=UTC)


def test_the_clock_goes_forward_and_the_next_day_is_normal():
    before = datetime(2026, 3, 7, 12, tzinfo=UTC)

    first = next_slot("30 2 * * *", "America/New_York", after=before)
    second = next_slot("30 2 * * *", "America/New_York", after=first)

    # There is no 02:30 on the 8th: it is due when the clock has gone forward, at 03:00.
    assert first == datetime(2026, 3, 8, 7, tzinfo=UTC)
    assert second == datetime(2026, 3, 9, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize("expression", ["@daily", "0 0 * * *", "0 0 * * mon"])
def test_an_expression_that_will_be_due_is_accepted(expression):
    check_schedule(expression, "Asia/Kathmandu")


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "60 * * * *", "", "* *", "@reboot", "H H * * *", "x * * * *"]
)
def test_an_expression_that_is_never_due_is_refused(expression):
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule(expression, "UTC")

    assert str(caught.value).startswith(f"The cron expression {expression!r} is invalid: ")


@pytest.mark.parametrize("expression", ["R R * * *", "r(0-10) * * * *", None, 5])
def test_an_expression_whose_times_vary_is_refused(expression):
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule(expression, "UTC")

    assert str(caught.value) == (
        f"The cron expression {expression!r} is invalid: it must be text, and each reading of it "
        "must give the same times, so R is not allowed."
    )


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "../passwd", "/etc/localtime", "a\x00", None]
)
def test_a_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule("@daily", zone)

    assert str(caught.value) == (
        f"There is no time zone {zone!r}. Give an IANA name such as 'Europe/Berlin'."
    )
