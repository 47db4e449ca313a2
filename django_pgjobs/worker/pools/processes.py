"""Handlers in processes of their own.

A handler that keeps the interpreter to itself slows down nobody, one that does not end is
killed, and a crash costs only its own attempt. Leases are renewed by the worker, whatever its
processes do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from time import monotonic
from typing import Final

from ...definitions.registry import Registry
from ..attempts import Attempt
from ..classifying import released
from ..measuring import RunTime
from ..restarting import pause_before_restart
from ..timeouts import DeadlineWatch
from ..vital import VitalThread
from .place import Place, ProcessOptions, block_signals
from .pool import Finish

#: A job comes back after so long when no process could be started for it.
_NO_PROCESS_DELAY: Final = timedelta(seconds=15)

#: Seconds in which processes that have nothing to do must have ended.
_END_WITHIN: Final = 6.0


class ProcessPool:
    """Up to ``size`` processes, started when there is something to do and no sooner.

    Args:
        size: most processes.
        options: how they work.
        registry: of definitions.
        run_time: told how long handlers take.
        watch: of the time.
        finish: told how attempts end.
        random: source of jitter.
    """

    def __init__(
        self,
        size: int,
        *,
        options: ProcessOptions,
        registry: Registry,
        run_time: RunTime,
        watch: DeadlineWatch,
        finish: Finish,
        random: Random,
    ) -> None:
        self.size = size
        self._options = options
        self._registry = registry
        self._run_time = run_time
        self._watch = watch
        self._finish = finish
        self._random = random
        self._waiting: deque[Attempt] = deque()
        self._changed = threading.Condition()
        self._places: dict[Place, threading.Thread] = {}
        # Places that run nothing; of all places, those that have a process.
        self._free = 0
        self._able = 0
        self._is_draining = False
        # When attempts last came or began.
        self._moved_at = 0.0

    @property
    def is_busy(self) -> bool:
        """True while a handler runs."""
        return any(place.is_busy for place in list(self._places))

    def start(self) -> None:
        """Do nothing: the first job starts the first process."""

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, in this order, as places become free."""
        with self._changed:
            self._moved_at = monotonic()
            self._waiting.extend(attempts)
            missing = len(self._waiting) - self._free
            for _ in range(min(missing, self.size - len(self._places))):
                self._add_place()
            self._changed.notify(len(attempts))

    def take_back(self) -> list[Attempt]:
        """Return what has not begun; tell handlers that the worker stops; let the others end."""
        with self._changed:
            self._is_draining = True
            taken = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for place in list(self._places):
            place.tell_stopping()
        return taken

    def take_back_ahead(self, patience: float) -> list[Attempt]:
        """Return what waits for a place behind handlers that take long, and forget it.

        What a process is being started for stays.
        """
        with self._changed:
            ahead = len(self._waiting) - self._free
            if ahead <= 0 or monotonic() - self._moved_at < patience:
                return []
            return [self._waiting.pop() for _ in range(ahead)][::-1]

    def interrupt(self, attempt: Attempt) -> None:
        """Tell a handler that its work is not wanted any more; kill it after the grace."""
        for place in list(self._places):
            place.interrupt(attempt)

    def stop(self) -> None:
        """Kill what still runs, and wait a moment for processes to end."""
        with self._changed:
            self._is_draining = True
            self._changed.notify_all()
        for place in list(self._places):
            place.stop()
        deadline = monotonic() + _END_WITHIN
        for thread in list(self._places.values()):
            thread.join(max(0.0, deadline - monotonic()))

    def _add_place(self) -> None:
        place = Place(self._options, self._registry, self._watch)
        thread = VitalThread(
            self._run, name=f"pgjobs-process-{len(self._places) + 1}", args=[place]
        )
        # First: where no thread can be started, there is none to wait for at the end.
        thread.start()
        self._places[place] = thread
        self._free += 1

    def _run(self, place: Place) -> None:
        block_signals()
        failures = 0
        while not self._is_draining:
            is_able = place.prepare() is not None
            failures = 0 if is_able else failures + 1
            if not is_able:
                self._give_up(failures)
                continue
            attempt = self._next()
            if attempt is not None:
                self._carry(place, attempt)
        place.close()

    def _next(self) -> Attempt | None:
        with self._changed:
            self._able += 1
            self._changed.wait_for(lambda: self._waiting or self._is_draining)
            self._able -= 1
            if not self._waiting:
                return None
            self._free -= 1
            self._moved_at = monotonic()
            return self._waiting.popleft()

    def _carry(self, place: Place, attempt: Attempt) -> None:
        began = monotonic()
        outcome = place.carry(attempt)
        if outcome is None:
            outcome = released(attempt, delay=_NO_PROCESS_DELAY)
        else:
            self._run_time.note(monotonic() - began)
        with self._changed:
            self._free += 1
        self._finish(attempt, outcome)
        place.renew(attempt)

    def _give_up(self, failures: int) -> None:
        """Give back what no process can run; wait before the next try."""
        with self._changed:
            given_back = []
            if not self._able and not self.is_busy:
                given_back = list(self._waiting)
                self._waiting.clear()
        for attempt in given_back:
            self._finish(attempt, released(attempt, delay=_NO_PROCESS_DELAY))
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_draining, pause_before_restart(failures, self._random)
            )
