"""The rule for changed clocks, in every zone there is.

The oracle knows neither croniter nor ``definitions.clocks``: it goes through the instants around
each change minute by minute, looks at the clock, and applies the rule as the documentation has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_pgjobs.definitions.clocks import change_at
from django_pgjobs.definitions.timetables import read_timetable

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FIRST, LAST = datetime(2025, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
ALL_HOURS = frozenset(range(24))


@dataclass(frozen=True)
class Change:
    """A change of a zone's clock: the first instant of the new time, and both offsets."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta


@dataclass(frozen=True)
class Times:
    """Minutes, hours and days of the week of an expression; the other fields are stars."""

    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int] = frozenset(range(7))

    @property
    def expression(self) -> str:
        days = "*" if len(self.weekdays) == 7 else joined(self.weekdays)
        return f"{joined(self.minutes)} {joined(self.hours)} * * {days}"

    def match(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.isoweekday() % 7 in self.weekdays
        )


def joined(numbers) -> str:
    return ",".join(str(number) for number in sorted(numbers))


def offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset()


def changes_of(name: str) -> Iterator[Change]:
    zone, day = ZoneInfo(name), FIRST
    while day < LAST:
        before, after = offset(zone, day), offset(zone, day + DAY)
        if before != after:
            at = day
            while offset(zone, at) == before:
                at += HOUR
            at -= HOUR
            while offset(zone, at) == before:
                at += MINUTE
            yield Change(name, at, before, after)
        day += DAY


CHANGES = [change for name in sorted(available_timezones()) for change in changes_of(name)]
ZONES = sorted({change.zone for change in CHANGES})


def expected(times: Times, change: Change, start: datetime, end: datetime) -> list[datetime]:
    """Return the slots after ``start`` and not after ``end``, as the documentation has it."""
    zone, found = ZoneInfo(change.zone), []
    shift = (change.after - change.before) // MINUTE
    skipped = [(change.at + change.before + n * MINUTE) for n in range(max(0, shift))]
    instant = start
    while (instant := instant + MINUTE) <= end:
        local = instant.astimezone(zone)
        is_due = times.match(local)
        if times.hours != ALL_HOURS:
            is_due = is_due and local.fold == 0
            is_due |= instant == change.at and any(times.match(wall) for wall in skipped)
        if is_due:
            found.append(instant)
    return found


def slots(times: Times, change: Change, start: datetime, end: datetime) -> list[datetime]:
    timetable = read_timetable(times.expression, change.zone)
    return list(takewhile(lambda at: at <= end, (slot.at for slot in timetable.slots(start))))


EVERY = frozenset(range(60))
EXAMPLES = [
    Times(EVERY, ALL_HOURS),
    Times(frozenset({30}), ALL_HOURS),
    Times(frozenset({0, 15, 45}), ALL_HOURS),
    Times(frozenset({0}), frozenset(range(0, 24, 2))),
    Times(frozenset({0, 45}), frozenset(range(23))),
    Times(frozenset({30}), frozenset({0, 1, 2, 3})),
    Times(frozenset({10, 50}), frozenset({23, 0, 2})),
]


def test_the_zones_are_all_there():
    shifts = {abs(change.after - change.before) // MINUTE for change in CHANGES}

    # Lord Howe Island and Troll Station are the unusual ones.
    assert {30, 60, 120} <= shifts
    assert len(ZONES) > 100
    assert {"Europe/Berlin", "America/New_York", "Africa/Casablanca"} <= set(ZONES)


@pytest.mark.parametrize("zone", ZONES)
def test_a_change_is_found_from_the_times_that_it_skips_or_repeats(zone):
    info = ZoneInfo(zone)
    for change in changes_of(zone):
        low, high = sorted((change.before, change.after))
        first, end = (change.at.replace(tzinfo=None) + shift for shift in (low, high))

        for wall in (first, end - MINUTE, first + (end - first) / 2):
            found = change_at(wall, info)
            assert (found.at, found.before, found.after) == (
                change.at,
                change.before,
                change.after,
            )
            assert (found.first, found.end, found.is_gap) == (first, end, low == change.before)
        assert change_at(first - MINUTE, info) is None
        assert change_at(end, info) is None


def distinct(zones: list[str]) -> list[str]:
    """Return a zone of each set of zones whose clocks are changed alike."""
    alike = {
        tuple((change.at, change.before, change.after) for change in changes_of(zone)): zone
        for zone in zones
    }
    return sorted(alike.values())


@pytest.mark.slow
@pytest.mark.parametrize("zone", distinct(ZONES))
def test_the_rule_holds_around_each_change_of_a_zone(zone):
    for change in changes_of(zone):
        start, end = change.at - 150 * MINUTE, change.at + 210 * MINUTE
        for times in EXAMPLES:
            assert slots(times, change, start, end) == expected(times, change, start, end)


expressions = st.builds(
    Times,
    minutes=st.frozensets(st.sampled_from([0, 1, 15, 29, 30, 44, 45, 59]), min_size=1),
    hours=st.one_of(st.just(ALL_HOURS), st.frozensets(st.integers(0, 23), min_size=1)),
    weekdays=st.one_of(st.just(frozenset(range(7))), st.frozensets(st.integers(0, 6), min_size=1)),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(change=st.sampled_from(CHANGES), times=expressions, before=st.integers(0, 180 * 60))
def test_the_rule_holds_for_any_expression_from_any_instant(change, times, before):
    start = change.at - timedelta(seconds=before)
    end = change.at + 26 * HOUR

    wanted = expected(times, change, start.replace(second=0), end)
    assert slots(times, change, start, end) == [at for at in wanted if at > start]
