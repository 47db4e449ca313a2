"""When a cron expression is due, on the wall clock of its zone.

croniter only reads the expression and goes through a calendar without zones; what happens when
the clock is changed is decided here. It depends on the expression:

- One that is due in every hour of its days follows elapsed time. It is due whenever the clock
  shows a time that matches: twice where times are repeated, never where they are skipped.
- Any other names hours, and is due once for each time that it names. A repeated time is due at
  its first pass. Skipped times are due, all together, at the first instant after the gap.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Final
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterError

from ..exceptions import InvalidSchedule
from .clocks import ClockChange, change_at, instant_of, zone_of

#: croniter's random fields, such as R or R(0-10). No name of a month or a day has this letter
#: alone.
_RANDOM: Final = re.compile(r"\br\b", re.IGNORECASE)

#: Some naive time to try expressions from.
_SOME_TIME: Final = datetime(2026, 1, 1)

_LONGEST: Final = 500
_MOST_FIELDS: Final = 6
_HOURS_OF_A_DAY: Final = 24
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Slot:
    """One instant at which an expression is due.

    Attributes:
        at: in UTC.
        wall: what the expression named; the clock does not show it if it is skipped.
        change: of the clock, that skips or repeats this time.
    """

    at: datetime
    wall: datetime
    change: ClockChange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """A cron expression on the wall clock of a zone. Made by :func:`read_timetable`.

    Attributes:
        expression: as it was given.
        zone: whose clock it means.
        is_hourly: it is due in every hour of its days, and so follows elapsed time.
    """

    expression: str
    zone: ZoneInfo
    is_hourly: bool
    _cron: Any

    def next(self, after: datetime) -> Slot:
        """Return the first slot after ``after``.

        Raises:
            InvalidSchedule: there is none within fifty years.
        """
        return self._next_of_all(after) if self.is_hourly else self._next_of_named(after)

    def slots(self, after: datetime) -> Iterator[Slot]:
        """Yield each slot after ``after``, for ever."""
        while True:
            slot = self.next(after)
            yield slot
            after = slot.at

    def latest(
        self, *, after: datetime, until: datetime, limit: int
    ) -> tuple[list[datetime], bool]:
        """Return the last ``limit`` slots after ``after`` and not after ``until``, in order.

        Takes time in proportion to ``limit``, however long the span is.

        Returns:
            The slots, and whether these are all of them.

        Raises:
            InvalidSchedule: the expression is not due within fifty years.
        """
        found = list(islice(self._until(after, until), limit + 1))
        if len(found) <= limit:
            return found, True
        # Back from the end: by what as many took at the beginning, and further if need be.
        step, found = found[-1] - found[0], []
        while len(found) < limit:
            start = max(after, until - step)
            found = list(deque(self._until(start, until), maxlen=limit))
            step *= 2
        return found, False

    def _until(self, after: datetime, until: datetime) -> Iterator[datetime]:
        return takewhile(lambda at: at <= until, (slot.at for slot in self.slots(after)))

    def _next_of_named(self, after: datetime) -> Slot:
        wall, fold, change = self._read_clock(after)
        if change and fold:
            # Every time of the second pass was due in the first.
            wall = change.end - _SECOND
        while True:
            wall = self._next_wall(wall)
            change = change_at(wall, self.zone)
            at = change.at if change and change.is_gap else instant_of(wall, self.zone)
            if at > after:
                return Slot(at, wall, change)

    def _next_of_all(self, after: datetime) -> Slot:
        wall, fold, change = self._read_clock(after)
        following = self._next_wall(wall)
        if change and not fold and following >= change.end:
            # Nothing more in the first pass: the second begins.
            again = self._next_wall(change.first - _SECOND)
            if again < change.end:
                return Slot(instant_of(again, self.zone, fold=1), again, change)
        while True:
            change = change_at(following, self.zone)
            if change is None or not change.is_gap:
                break
            following = self._next_wall(change.end - _SECOND)
        at = instant_of(following, self.zone)
        if at <= after:
            at = instant_of(following, self.zone, fold=1)
        return Slot(at, following, change)

    def _read_clock(self, instant: datetime) -> tuple[datetime, int, ClockChange | None]:
        local = instant.astimezone(self.zone)
        wall = local.replace(tzinfo=None, fold=0)
        return wall, local.fold, change_at(wall, self.zone)

    def _next_wall(self, wall: datetime) -> datetime:
        # A copy: the state of a croniter is where it has got to, and threads share this one.
        try:
            following: datetime = copy.copy(self._cron).get_next(datetime, start_time=wall)
        except (CroniterError, ValueError, OverflowError) as error:
            raise _invalid(self.expression, error) from None
        return following


def read_timetable(expression: str, timezone: str) -> Timetable:
    """Return when ``expression`` is due.

    Args:
        expression: five fields, or six with the seconds at the end, or ``@daily`` and the like.
        timezone: IANA name of the zone whose wall clock the expression means.

    Raises:
        InvalidSchedule: the expression or the zone is invalid, or never due.
    """
    if isinstance(expression, str) and len(expression) > _LONGEST:
        raise _invalid(expression[:20] + "…", f"it has more than {_LONGEST} characters.")
    if not isinstance(expression, str) or _RANDOM.search(expression):
        raise _invalid(
            expression,
            "it must be text, and each reading of it must give the same times, so R is not "
            "allowed.",
        )
    return _read(expression, zone_of(timezone))


@lru_cache(maxsize=1024)
def _read(expression: str, zone: ZoneInfo) -> Timetable:
    if not expression.isascii():
        # Some releases of croniter read the digits of other scripts.
        raise _invalid(expression, "it has characters that are not ASCII.")
    if len(expression.split()) > _MOST_FIELDS:
        raise _invalid(expression, "it has more than six fields.")
    try:
        cron = croniter(expression, _SOME_TIME)
    except (CroniterError, ValueError, KeyError) as error:
        raise _invalid(expression, error) from None
    hours = cron.expanded[1]
    is_hourly = "*" in hours or len(set(hours)) == _HOURS_OF_A_DAY
    timetable = Timetable(expression, zone, is_hourly, cron)
    timetable.next(instant_of(_SOME_TIME, zone))
    return timetable


def _invalid(expression: str, problem: object) -> InvalidSchedule:
    return InvalidSchedule(f"The cron expression {expression!r} is invalid: {problem}")
