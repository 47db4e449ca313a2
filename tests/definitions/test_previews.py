"""What a schedule will do, with notes where the clock is changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_pgjobs.definitions.previews import preview
from django_pgjobs.exceptions import InvalidSchedule


def shown(expression, zone, after, count):
    slots = preview(expression, zone, count=count, after=datetime.fromisoformat(after))
    return [(f"{slot.at:%Y-%m-%d %H:%M:%S %z}", slot.note) for slot in slots]


def test_ordinary_days_have_no_notes():
    assert shown("@daily", "Asia/Tokyo", "2026-01-01T00:00Z", 2) == [
        ("2026-01-02 00:00:00 +0900", ""),
        ("2026-01-03 00:00:00 +0900", ""),
    ]


def test_a_skipped_time_is_noted():
    assert shown("30 2 * * *", "America/New_York", "2026-03-07T12:00Z", 2) == [
        (
            "2026-03-08 03:00:00 -0400",
            "There is no 02:30 on this day: it is due when the clock has been put forward.",
        ),
        ("2026-03-09 02:30:00 -0400", ""),
    ]


def test_a_repeated_time_is_noted():
    assert shown("30 1 * * * 15", "America/New_York", "2026-10-31T12:00Z", 1) == [
        (
            "2026-11-01 01:30:15 -0400",
            "The clock shows 01:30:15 twice on this day: it is due the first time.",
        )
    ]


def test_both_passes_of_an_hourly_schedule_are_noted():
    assert shown("30 * * * *", "Europe/Berlin", "2026-10-25T00:00Z", 3) == [
        (
            "2026-10-25 02:30:00 +0200",
            "The clock shows 02:30 twice on this day: this is the first time.",
        ),
        (
            "2026-10-25 02:30:00 +0100",
            "The clock shows 02:30 twice on this day: this is the second time.",
        ),
        ("2026-10-25 03:30:00 +0100", ""),
    ]


def test_it_begins_now_unless_told_otherwise():
    (slot,) = preview("* * * * *", "UTC", count=1)

    assert 0 < (slot.at - datetime.now(UTC)).total_seconds() <= 60


def test_what_is_never_due_is_refused():
    with pytest.raises(InvalidSchedule):
        preview("0 0 30 2 *", "UTC")
