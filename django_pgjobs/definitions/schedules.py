"""When a cron expression is due."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter
from croniter.croniter import CroniterError

from ..exceptions import DeclarationError

#: croniter's random fields, such as R or R(0-10). No name of a month or a day has this letter
#: alone.
_RANDOM: Final = re.compile(r"\br\b", re.IGNORECASE)


class InvalidSchedule(DeclarationError):
    """A cron expression or a time zone does not exist, or can never be due."""


def next_slot(expression: str, timezone: str, *, after: datetime) -> datetime:
    """Return the first instant after ``after`` at which the expression is due.

    Args:
        expression: five or six fields, or ``@daily`` and the like.
        timezone: IANA name of the zone whose wall clock the expression means.
        after: an aware datetime.

    Raises:
        InvalidSchedule: the expression or the zone is invalid, or never due.
    """
    zone = _zone(timezone)
    if not isinstance(expression, str) or _RANDOM.search(expression):
        raise InvalidSchedule(
            f"The cron expression {expression!r} is invalid: it must be text, and each reading "
            "of it must give the same times, so R is not allowed."
        )
    try:
        slot = croniter(expression, after.astimezone(zone)).get_next(datetime)
    except (CroniterError, ValueError, KeyError) as error:
        raise InvalidSchedule(f"The cron expression {expression!r} is invalid: {error}") from None
    due: datetime = slot.astimezone(UTC)
    return due


def check_schedule(expression: str, timezone: str) -> None:
    """Check that the expression will be due some day.

    Raises:
        InvalidSchedule: it will not, or it or the zone is invalid.
    """
    next_slot(expression, timezone, after=datetime.now(UTC))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidSchedule(
            f"There is no time zone {name!r}. Give an IANA name such as 'Europe/Berlin'."
        ) from None
