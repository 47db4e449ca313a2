"""What the clock on the wall shows, and when it is changed.

A zone's clock is put forward, and then a range of times does not exist on that day; or it is put
back, and then a range exists twice. ``datetime.fold`` (PEP 495) tells the two passes apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..exceptions import InvalidSchedule

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The moment at which a zone's clock is changed.

    Attributes:
        at: the first instant of the new time, in UTC.
        before: the offset from UTC until then.
        after: the offset from then on.
    """

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        """True when the clock is put forward: times are skipped, not repeated."""
        return self.after > self.before

    @property
    def first(self) -> datetime:
        """The first wall time that is skipped or repeated."""
        return self.at.replace(tzinfo=None) + min(self.before, self.after)

    @property
    def end(self) -> datetime:
        """The first wall time after those that are skipped or repeated."""
        return self.at.replace(tzinfo=None) + max(self.before, self.after)


def zone_of(name: str) -> ZoneInfo:
    """Return the zone called ``name``.

    Raises:
        InvalidSchedule: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidSchedule(
            f"There is no time zone {name!r}. Give an IANA name such as 'Europe/Berlin'."
        ) from None


def instant_of(wall: datetime, zone: ZoneInfo, *, fold: int = 0) -> datetime:
    """Return when the clock shows ``wall``, in UTC: of a repeated time, the pass ``fold``."""
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def change_at(wall: datetime, zone: ZoneInfo) -> ClockChange | None:
    """Return the change that skips or repeats the naive time ``wall``; None for a usual one."""
    one = wall.replace(tzinfo=zone, fold=0, microsecond=0)
    first, second = _offset(one), _offset(one.replace(fold=1))
    if first == second:
        return None
    naive = one.replace(tzinfo=None)
    # In both cases fold 0 means the offset before the change, and fold 1 the one after it.
    earlier, later = sorted((naive - first, naive - second))
    while later - earlier > _SECOND:
        middle = earlier + (later - earlier) // _SECOND // 2 * _SECOND
        if _offset(middle.replace(tzinfo=UTC).astimezone(zone)) == first:
            earlier = middle
        else:
            later = middle
    return ClockChange(later.replace(tzinfo=UTC), first, second)


def _offset(local: datetime) -> timedelta:
    # None only of a datetime without a zone.
    return local.utcoffset() or timedelta(0)
