"""Look at an event loop from outside: it cannot tell that it is blocked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any, Final, Protocol

from ..attempts import Attempt
from ..vital import VitalThread

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds between two looks, and so after which a block is noticed.
_TICK: Final = 1.0


class Watched(Protocol):
    """What can be seen of a loop in any thread."""

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function in the loop, soon."""

    def running(self) -> list[Attempt]:
        """Return the attempts that have a task."""

    def sweep(self) -> None:
        """Give back attempts that ended without a word. Called in the loop."""

    def current(self) -> tuple[Attempt | None, str]:
        """Return whose turn it is, if that is known, and where the loop's thread is."""


class LoopWatch:
    """A thread that warns of handlers that block a loop, and finds those that do not end.

    Args:
        loop: what to look at.
        grace: how long a handler may go on after its timeout.
        patience: how long a handler may block the loop.
        on_overdue: called with an attempt whose handler has gone on for longer.
        on_stuck: called once, with the attempt whose handler has blocked the loop for longer, if
            that is known.
    """

    def __init__(
        self,
        loop: Watched,
        *,
        grace: timedelta,
        patience: timedelta,
        on_overdue: Callable[[Attempt], None],
        on_stuck: Callable[[Attempt | None], None],
    ) -> None:
        self._loop = loop
        self._grace = grace
        self._patience = patience.total_seconds()
        self._on_overdue = on_overdue
        self._on_stuck = on_stuck
        self._asked_at: float | None = None
        self._has_warned = False
        self._is_stuck = False
        self._stopped = threading.Event()
        self._thread = VitalThread(self._run, name="pgjobs-loop-watch")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Does not wait."""
        self._stopped.set()

    def look(self) -> None:
        """Look once: whether the loop has answered since the last look, and who is overdue."""
        asked_at = self._asked_at
        running = self._loop.running()
        if asked_at is not None:
            self._note_block(monotonic() - asked_at)
        elif running:
            self._asked_at = monotonic()
            self._loop.call(self._answer)
        for attempt in running:
            left = attempt.context.time_left
            if left is not None and left < -self._grace:
                self._on_overdue(attempt)

    def _run(self) -> None:
        while not self._stopped.wait(_TICK):
            self.look()

    def _answer(self) -> None:
        self._asked_at = None
        self._has_warned = False
        self._loop.sweep()

    def _note_block(self, seconds: float) -> None:
        is_stuck = seconds > self._patience and not self._is_stuck
        if self._has_warned and not is_stuck:
            return
        attempt, stack = self._loop.current()
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The event loop is blocked: id=%s name=%s for_s=%.1f. Nothing else in it can go "
                "on. Await what takes time, or declare the job with pool='threads'. It is at:\n%s",
                attempt and attempt.job.id,
                attempt and attempt.job.job_name,
                seconds,
                stack,
            )
        if is_stuck:
            self._is_stuck = True
            self._on_stuck(attempt)
