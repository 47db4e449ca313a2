"""Help for tests of when a schedule is due."""

from __future__ import annotations

from datetime import datetime

from django_pgjobs.definitions.timetables import read_timetable


def next_slot(expression: str, timezone: str, *, after: datetime) -> datetime:
    """Return the first instant after ``after`` at which the expression is due."""
    return read_timetable(expression, timezone).next(after).at
