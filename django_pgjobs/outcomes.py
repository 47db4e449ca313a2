"""What a handler raises to choose its own ending.

These are outcomes, not errors: they derive from ``Exception`` so that they
travel through the handler's frames, and not from ``PgJobsError``.
"""

from __future__ import annotations

from datetime import timedelta

from .conf import LONGEST_DURATION


class Retry(Exception):
    """Fail this attempt and run again, after ``delay`` or the job's own backoff.

    The attempt counts: at ``max_attempts`` the job is dead.

    Args:
        reason: recorded as the attempt's error message.
        delay: how long to wait, at most 36,525 days; None for the job's backoff.
    """

    #: Also of a subclass whose __init__ does not call this one.
    delay: timedelta | None = None

    def __init__(self, reason: str = "", *, delay: timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = _checked(delay) if delay is not None else None


class Snooze(Exception):
    """Give the job back and run it again after ``delay``. No attempt is spent.

    Args:
        delay: how long to wait; not negative, at most 36,525 days.
    """

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"Snoozed for {delay}.")
        self.delay = _checked(delay)

    def __reduce__(self) -> tuple[type[Snooze], tuple[timedelta]]:
        return type(self), (self.delay,)


class Cancel(Exception):
    """End the job as cancelled. It does not run again.

    Args:
        reason: recorded as the attempt's error message.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


def _checked(delay: timedelta) -> timedelta:
    if not isinstance(delay, timedelta):
        raise TypeError(f"delay must be a timedelta, not {delay!r}.")
    if delay < timedelta(0):
        raise ValueError(f"delay must not be negative, but is {delay!r}.")
    if delay > LONGEST_DURATION:
        # It could not be added to the server's clock, and the outcome would be refused.
        raise ValueError(f"delay must be at most 36525 days, but is {delay!r}.")
    return delay
