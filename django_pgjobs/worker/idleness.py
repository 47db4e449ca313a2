"""How an idle worker waits.

::

    looks every 10, 20, 40 … ms ──> says that it is idle ──> goes on looking ──> sleeps

A producer that has just seen nobody idle believes it for a moment and does not notify. So
that its job is not missed, a worker looks on for longer than that moment after it has said
that it is idle; only then it sleeps up to the poll interval, or until it is woken.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Final

#: First wait, in seconds; doubled each time.
SHORTEST_WAIT: Final = 0.01

#: Longest wait before the worker may sleep, in seconds.
_LONGEST_LOOK: Final = 0.08

#: A worker says that it is idle when it has found nothing for so many seconds.
IDLE_AFTER: Final = 0.3

#: It looks on for so many seconds after that; longer than a producer believes that nobody
#: is idle, with room for a slow machine (producer/waking.py).
LOOK_ON_FOR: Final = 1.0

#: Between two stagings of a busy worker, in seconds.
STAGE_EVERY: Final = 0.1


class Idleness:
    """How long an idle worker waits, and when the next chores are due.

    Args:
        poll_interval: longest sleep.
    """

    def __init__(self, poll_interval: timedelta) -> None:
        self._longest = poll_interval.total_seconds()
        self._wait = SHORTEST_WAIT
        self._due_at: float | None = None
        self._began_at: float | None = None
        self._said_at: float | None = None
        self.stage_at = 0.0
        self.discover_at = 0.0

    @property
    def has_said_so(self) -> bool:
        """True when producers have been told that the worker is idle."""
        return self._said_at is not None

    def note_work(self) -> None:
        """There is work."""
        self._wait = SHORTEST_WAIT
        self._began_at = self._said_at = None

    def should_say_so(self) -> bool:
        """Say whether it is time to tell producers that the worker is idle."""
        if self._began_at is None:
            self._began_at = monotonic()
        return self._said_at is None and monotonic() - self._began_at >= IDLE_AFTER

    def note_said_so(self) -> None:
        """Producers have just been told."""
        self._said_at = monotonic()

    def note_staged(self, next_due: timedelta | None) -> None:
        """A staging has just been done; the next waiting job is due in ``next_due``."""
        now = monotonic()
        self.stage_at = now + STAGE_EVERY
        self._due_at = None if next_due is None else now + next_due.total_seconds()

    def next_wait(self) -> float:
        """Return the seconds to wait, no longer than until a waiting job is due."""
        may_sleep = self._said_at is not None and monotonic() - self._said_at >= LOOK_ON_FOR
        longest = self._longest if may_sleep else min(_LONGEST_LOOK, self._longest)
        wait = min(self._wait, longest)
        self._wait = min(self._wait * 2, longest) if not may_sleep else self._longest
        if self._due_at is not None:
            wait = min(wait, max(0.0, self._due_at - monotonic()))
        return wait
