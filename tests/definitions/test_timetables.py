"""When a cron expression is due, on the wall clock of its zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest

from django_pgjobs.definitions.timetables import read_timetable
from django_pgjobs.exceptions import InvalidSchedule
from tests.definitions.slots import next_slot


def due(expression, zone, start, count):
    """Return the next slots after a UTC time, on the clock of the zone with its offset."""
    timetable = read_timetable(expression, zone)
    after = datetime.fromisoformat(start).replace(tzinfo=UTC)
    slots = islice(timetable.slots(after), count)
    return [f"{slot.at.astimezone(timetable.zone):%d %H:%M %z}" for slot in slots]


def test_the_next_slot_is_after_the_instant_and_in_utc():
    slot = next_slot("*/15 * * * *", "UTC", after=datetime(2026, 7, 1, 12, 15, tzinfo=UTC))

    assert slot == datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
    assert slot.tzinfo is UTC


def test_the_expression_means_the_clock_of_its_zone():
    after = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=9)))

    slot = next_slot("30 8 * * *", "Europe/Berlin", after=after)

    assert slot == datetime(2026, 7, 1, 6, 30, tzinfo=UTC)


def test_the_next_slot_may_be_a_fraction_of_a_second_away():
    after = datetime(2026, 7, 1, 11, 59, 59, 999_999, tzinfo=UTC)

    assert next_slot("0 12 * * *", "UTC", after=after) == datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_the_sixth_field_is_the_seconds():
    assert due("0 12 * * * 30", "UTC", "2026-07-01T12:00:00", 1) == ["01 12:00 +0000"]
    slot = next_slot("0 12 * * * 30", "UTC", after=datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert slot.second == 30


class TestClockPutForward:
    """Times that do not exist on one day of the year."""

    def test_a_skipped_time_is_due_at_the_first_instant_after_the_gap(self):
        found = due("30 2 * * *", "America/New_York", "2026-03-07T00:00", 3)

        # There is no 02:30 on the 8th. The day after is as usual.
        assert found == ["07 02:30 -0500", "08 03:00 -0400", "09 02:30 -0400"]

    def test_skipped_times_are_due_once_all_together(self):
        found = due("*/20 2,3 * * *", "Europe/Berlin", "2026-03-28T23:00", 4)

        assert found == ["29 03:00 +0200", "29 03:20 +0200", "29 03:40 +0200", "30 02:00 +0200"]

    def test_an_hourly_schedule_follows_elapsed_time(self):
        found = due("30 * * * *", "Europe/Berlin", "2026-03-29T00:00", 3)

        assert found == ["29 01:30 +0100", "29 03:30 +0200", "29 04:30 +0200"]

    def test_a_gap_of_half_an_hour(self):
        """Lord Howe Island goes from 02:00 to 02:30."""
        named = due("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 2)
        outside = due("45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", 1)
        hourly = due("15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:30", 3)

        assert named == ["04 02:30 +1100", "05 02:15 +1100"]
        assert outside == ["04 02:45 +1100"]
        assert hourly == ["04 01:15 +1030", "04 03:15 +1100", "04 04:15 +1100"]

    def test_a_gap_of_two_hours(self):
        """Troll Station goes from 01:00 to 03:00."""
        found = due("30 1,2 * * *", "Antarctica/Troll", "2026-03-28T12:00", 2)

        assert found == ["29 03:00 +0200", "30 01:30 +0200"]

    def test_a_gap_of_a_whole_day(self):
        """Samoa had no 30 December 2011."""
        found = due("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", 3)

        assert found == ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400"]

    def test_a_gap_at_midnight(self):
        """Beirut goes from 00:00 to 01:00, so that the day begins at 01:00."""
        assert due("@daily", "Asia/Beirut", "2026-03-28T12:00", 2) == [
            "29 01:00 +0300",
            "30 00:00 +0300",
        ]


class TestClockPutBack:
    """Times that exist twice on one day of the year."""

    def test_a_repeated_time_is_due_the_first_time(self):
        found = due("30 1 * * *", "America/New_York", "2026-10-31T12:00", 2)

        assert found == ["01 01:30 -0400", "02 01:30 -0500"]

    def test_an_hourly_schedule_follows_elapsed_time(self):
        found = due("30 * * * *", "Europe/Berlin", "2026-10-24T23:00", 4)

        assert found == ["25 01:30 +0200", "25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]

    def test_the_second_pass_is_due_again_where_it_begins(self):
        found = due("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", 3)

        assert found == ["25 02:00 +0200", "25 02:00 +0100", "25 03:00 +0100"]

    def test_between_the_passes_a_named_hour_is_not_due(self):
        found = due("*/20 2 * * *", "Europe/Berlin", "2026-10-25T01:10", 1)

        assert found == ["26 02:00 +0100"]

    def test_half_an_hour_is_repeated(self):
        """Lord Howe Island goes from 02:00 to 01:30."""
        named = due("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", 2)
        hourly = due("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:15", 5)

        assert named == ["05 01:45 +1100", "06 01:45 +1030"]
        assert hourly == [
            "05 01:30 +1100",
            "05 01:45 +1100",
            "05 01:30 +1030",
            "05 01:45 +1030",
            "05 02:00 +1030",
        ]

    def test_a_repeated_midnight_is_one_day(self):
        """Havana goes from 01:00 to 00:00."""
        assert due("@daily", "America/Havana", "2026-10-31T12:00", 2) == [
            "01 00:00 -0400",
            "02 00:00 -0500",
        ]

    def test_hours_that_are_listed_are_hourly_when_all_are(self):
        found = due("30 0-11,12-23 * * *", "Europe/Berlin", "2026-10-25T00:15", 2)

        assert found == ["25 02:30 +0200", "25 02:30 +0100"]

    def test_every_other_hour_names_hours(self):
        found = due("0 */2 * * *", "Atlantic/Azores", "2026-10-24T23:30", 2)

        # The Azores go from 01:00 to 00:00.
        assert found == ["25 00:00 +0000", "25 02:00 -0100"]


class TestLatest:
    """The last slots of a span."""

    NOW = datetime(2026, 6, 15, 12, 30, 30, tzinfo=UTC)

    def latest(self, expression, limit, **back):
        timetable = read_timetable(expression, "UTC")
        after = self.NOW - timedelta(**back)
        found, is_all = timetable.latest(after=after, until=self.NOW, limit=limit)
        return [f"{at:%m-%d %H:%M}" for at in found], is_all

    def test_all_of_them_where_they_are_few(self):
        assert self.latest("*/10 * * * *", 3, minutes=25) == (
            ["06-15 12:10", "06-15 12:20", "06-15 12:30"],
            True,
        )

    def test_the_last_of_many(self):
        assert self.latest("*/10 * * * *", 2, days=900) == (["06-15 12:20", "06-15 12:30"], False)

    def test_none(self):
        assert self.latest("0 0 1 1 *", 2, days=100) == ([], True)

    def test_one_that_lies_far_back(self):
        assert self.latest("0 0 1 1 *", 1, days=3000) == (["01-01 00:00"], False)

    def test_a_slot_at_the_end_counts_and_one_at_the_start_does_not(self):
        start = datetime(2026, 6, 15, 12, tzinfo=UTC)
        end = start + timedelta(hours=1)

        found = read_timetable("@hourly", "UTC").latest(after=start, until=end, limit=5)

        assert found == ([end], True)

    def test_a_span_that_lies_backwards_has_none(self):
        later = self.NOW + timedelta(days=1)

        found = read_timetable("@hourly", "UTC").latest(after=later, until=self.NOW, limit=5)

        assert found == ([], True)


@pytest.mark.parametrize("expression", ["@daily", "0 0 * * *", "0 0 * * mon", "* * * * * *"])
def test_an_expression_that_will_be_due_is_accepted(expression):
    read_timetable(expression, "Asia/Kathmandu")


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 *",
        "60 * * * *",
        "",
        "* *",
        "@reboot",
        "H H * * *",
        "x * * * *",
        "0 0 1 1 * 0 2020",
        "*\x00 * * * *",
        "٣ * * * *",
    ],
)
def test_an_expression_that_is_never_due_is_refused(expression):
    with pytest.raises(InvalidSchedule) as caught:
        read_timetable(expression, "UTC")

    assert str(caught.value).startswith(f"The cron expression {expression!r} is invalid: ")


@pytest.mark.parametrize("expression", ["R R * * *", "r(0-10) * * * *", None, 5, ["* * * * *"]])
def test_an_expression_whose_times_vary_is_refused(expression):
    with pytest.raises(InvalidSchedule) as caught:
        read_timetable(expression, "UTC")

    assert str(caught.value) == (
        f"The cron expression {expression!r} is invalid: it must be text, and each reading of it "
        "must give the same times, so R is not allowed."
    )


def test_an_expression_of_great_length_is_refused():
    with pytest.raises(InvalidSchedule, match="more than 500 characters"):
        read_timetable(",".join(["0"] * 10_000) + " * * * *", "UTC")


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "../passwd", "/etc/localtime", "a\x00", None]
)
def test_a_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(InvalidSchedule) as caught:
        read_timetable("@daily", zone)

    assert str(caught.value) == (
        f"There is no time zone {zone!r}. Give an IANA name such as 'Europe/Berlin'."
    )
