"""What a schedule will do, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from .timetables import Slot, Timetable, read_timetable


@dataclass(frozen=True, slots=True)
class UpcomingSlot:
    """A slot to come.

    Attributes:
        at: in the zone of the schedule.
        note: what a change of the clock means to it; empty on an ordinary day.
    """

    at: datetime
    note: str


def preview(
    expression: str, timezone: str, *, count: int = 10, after: datetime | None = None
) -> list[UpcomingSlot]:
    """Return the next times at which a cron expression is due.

    Args:
        expression: five fields, or six with the seconds at the end, or ``@daily`` and the like.
        timezone: IANA name of the zone whose wall clock the expression means.
        count: how many to return.
        after: an aware datetime; now unless given.

    Raises:
        InvalidSchedule: the expression or the zone is invalid, or never due.
    """
    timetable = read_timetable(expression, timezone)
    slots = islice(timetable.slots(after or datetime.now(UTC)), count)
    return [
        UpcomingSlot(slot.at.astimezone(timetable.zone), _note(timetable, slot)) for slot in slots
    ]


def _note(timetable: Timetable, slot: Slot) -> str:
    change = slot.change
    if change is None:
        return ""
    wall = slot.wall.time().isoformat("auto" if slot.wall.second else "minutes")
    if change.is_gap:
        return f"There is no {wall} on this day: it is due when the clock has been put forward."
    if not timetable.is_hourly:
        return f"The clock shows {wall} twice on this day: it is due the first time."
    time = "first" if slot.at < change.at else "second"
    return f"The clock shows {wall} twice on this day: this is the {time} time."
