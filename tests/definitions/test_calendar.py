"""What croniter makes of an expression on a calendar without zones, against a plain reading.

It is a library of others, of which every supported release should read expressions alike.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.definitions.slots import next_slot

MINUTE = timedelta(minutes=1)
RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def values(text: str, low: int, high: int) -> set[int]:
    """Read a field as crontab(5) describes it."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matches(expression: str, wall: datetime) -> bool:
    fields = expression.split()
    minute, hour, day, month, weekday = (
        values(text, *limits) for text, limits in zip(fields, RANGES, strict=True)
    )
    by_day, by_weekday = wall.day in day, wall.isoweekday() % 7 in weekday
    # Either, where both are restricted.
    is_day = by_day or by_weekday if "*" not in {fields[2], fields[4]} else by_day and by_weekday
    return wall.minute in minute and wall.hour in hour and wall.month in month and is_day


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1])
    single = st.one_of(
        number.map(str),
        span.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(span, st.integers(1, 9)).map(lambda it: f"{it[0][0]}-{it[0][1]}/{it[1]}"),
    )
    lists = st.lists(single, min_size=1, max_size=3).map(",".join)
    return st.one_of(
        st.just("*"),
        # A field that amounts to a star without being one is read now so, now so.
        lists.filter(lambda text: len(values(text, low, high)) <= high - low),
        st.integers(2, 9).map(lambda step: f"*/{step}"),
    )


EXPRESSIONS = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)
).map(" ".join)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    expression=EXPRESSIONS,
    start=st.datetimes(datetime(2024, 2, 1), datetime(2028, 1, 1)),
)
def test_no_minute_that_matches_is_left_out_and_no_other_is_due(expression, start):
    start = start.replace(tzinfo=UTC)

    slot = next_slot(expression, "UTC", after=start)

    assert matches(expression, slot), slot
    # What lies between, up to a day: a longer way is as good as the same test again.
    minute = start.replace(second=0, microsecond=0) + MINUTE
    while minute < min(slot, start + timedelta(days=1)):
        assert not matches(expression, minute), minute
        minute += MINUTE
