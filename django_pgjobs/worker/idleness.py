"""How an idle worker waits, and when producers are told.

::

    looks every 10 ms ──> says that it is idle ──> looks on every 10 ms ──> sleeps until woken

A producer that has just seen nobody idle believes it for a moment and does not notify. So
that its job is not missed, a worker looks on for longer than that moment after it has said
that it is idle; only then it sleeps up to the poll interval.

A worker that has said so may be woken for each job, which costs the producer a little. It takes
that back when it has work all the time, and for those queues of which it cannot take another job;
not when a job comes now and then, for then a word to the producers before and after each would
cost more.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Final

#: Between two looks, in seconds, until the worker may sleep; doubled each time where it cannot be
#: woken.
LOOK_EVERY: Final = 0.01

#: A worker says that it is idle when it has found nothing for so many seconds.
IDLE_AFTER: Final = 0.03

#: It looks on for so many seconds after that; longer than a producer believes that nobody
#: is idle, with room for a slow machine (producer/waking.py).
LOOK_ON_FOR: Final = 0.75

#: A worker takes it back when it has had work for so many seconds, without a pause as long as
#: the one after which it would say that it is idle.
BUSY_AFTER: Final = 0.3

#: Seconds after which a worker takes it back for a queue of which it has no room for a job.
FULL_AFTER: Final = 0.005

#: Between two stagings of a busy worker, in seconds.
STAGE_EVERY: Final = 0.1


class Idleness:
    """How long an idle worker waits, what it tells producers, and when the next chores are due.

    Args:
        poll_interval: longest sleep.
        listens: False for a worker that nobody can wake: it has nothing to say, and looks less and
            less often.
    """

    def __init__(self, poll_interval: timedelta, *, listens: bool = True) -> None:
        self._longest = poll_interval.total_seconds()
        self._listens = listens
        self._wait = LOOK_EVERY
        self._due_at: float | None = None
        self._worked_at = self._busy_since = monotonic()
        self._said: frozenset[str] | None = frozenset()
        self._said_at = 0.0
        self.stage_at = 0.0
        self.discover_at = 0.0

    @property
    def has_said_so(self) -> bool:
        """True when producers have been told that the worker is idle, or may believe it."""
        return self._said is None or bool(self._said)

    def has_said_so_of(self, queues: frozenset[str]) -> bool:
        """Say whether producers of one of ``queues`` may believe that the worker is idle."""
        return bool(queues) and (self._said is None or bool(self._said & queues))

    def note_work(self) -> None:
        """There is work."""
        now = monotonic()
        if now - self._worked_at >= IDLE_AFTER:
            self._busy_since = now
        self._worked_at = now
        self._wait = LOOK_EVERY

    def should_say_so(self, queues: frozenset[str]) -> bool:
        """Say whether it is time to tell producers that the worker is idle for ``queues``.

        Args:
            queues: for which it has room and has found nothing.
        """
        is_unsaid = self._listens and bool(queues) and self._said != queues
        return is_unsaid and monotonic() - self._worked_at >= IDLE_AFTER

    def note_said(self, queues: frozenset[str]) -> None:
        """Producers have just been told for which queues the worker is idle; empty for none."""
        if self._said is None or not queues <= self._said:
            self._said_at = monotonic()
        self._said = queues

    def note_unsure(self) -> None:
        """What producers have been told may be lost, or never have arrived."""
        if self._listens:
            self._said = None

    def should_take_back(self) -> bool:
        """Say whether it is time to tell producers that the worker is not idle any more."""
        return self.has_said_so and self._worked_at - self._busy_since >= BUSY_AFTER

    def note_staged(self, next_due: timedelta | None) -> None:
        """A staging has just been done; the next waiting job is due in ``next_due``."""
        now = monotonic()
        self.stage_at = now + STAGE_EVERY
        self._due_at = None if next_due is None else now + next_due.total_seconds()

    def next_wait(self, queues: frozenset[str]) -> float:
        """Return the seconds to wait, no longer than until a waiting job is due.

        Args:
            queues: for which the worker has room: of one that it has not said, nobody wakes it.
        """
        if self._said == queues and monotonic() - self._said_at >= LOOK_ON_FOR:
            wait = self._longest
        else:
            wait = min(self._wait, self._longest)
        if not self._listens:
            self._wait = min(2 * self._wait, self._longest)
        if self._due_at is not None:
            wait = min(wait, max(0.0, self._due_at - monotonic()))
        return wait
