"""Handlers in threads of the worker's process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

from ..attempts import Attempt
from ..stacks import stack_of_thread
from ..vital import VitalThread


class ThreadPool:
    """A fixed number of threads that take attempts from one queue, in order.

    The threads are daemons: a handler that never returns cannot keep the process alive
    once the worker has given its job back.

    A thread cannot be killed. One whose handler does not end is written off: another takes its
    place, and it ends itself when its handler does.

    Args:
        size: number of threads.
        work: called with each attempt, in a thread of the pool. Must not raise.
    """

    def __init__(self, size: int, work: Callable[[Attempt], None]) -> None:
        self.size = size
        self._work = work
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        self._running: dict[int, Attempt] = {}
        self._written_off: set[int] = set()
        self._leaving = threading.Lock()
        self._numbers = itertools.count(1)
        # When an attempt last came or began.
        self._moved_at = 0.0

    @property
    def is_busy(self) -> bool:
        """True while a thread runs a handler."""
        return bool(self._running)

    @property
    def stuck(self) -> int:
        """Threads that were written off and have not ended."""
        return len(self._written_off)

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self.size):
            self._add_thread()

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, in this order, as threads become free."""
        self._moved_at = monotonic()
        for attempt in attempts:
            self._waiting.put(attempt)

    def take_back(self) -> list[Attempt]:
        """Return the attempts that no thread has begun, and forget them."""
        taken: list[Attempt] = []
        with suppress(Empty):
            while True:
                attempt = self._waiting.get_nowait()
                if attempt is not None:
                    taken.append(attempt)
        return taken

    def take_back_ahead(self, patience: float) -> list[Attempt]:
        """Return what waits for a place behind handlers that take long, and forget it."""
        if self._waiting.empty() or monotonic() - self._moved_at < patience:
            return []
        waiting = self.take_back()
        free = max(0, self.size - len(self._running) + len(self._written_off))
        self.submit(waiting[:free])
        return waiting[free:]

    def interrupt(self, attempt: Attempt) -> None:
        """Do nothing: a thread cannot be stopped; its handler looks at its context."""

    def write_off(self, attempt: Attempt) -> str | None:
        """Give up the thread that runs ``attempt`` and start another in its place.

        Returns:
            Where that thread is just now, as a traceback; None if it does not run it any more.
        """
        with self._leaving:
            places = [place for place, running in self._running.items() if running is attempt]
            if not places:
                return None
            self._written_off.update(places)
        self._add_thread()
        return stack_of_thread(places[0])

    def stop(self) -> None:
        """Let each thread end when it is free. Does not wait."""
        for _ in range(self.size):
            self._waiting.put(None)

    def _add_thread(self) -> None:
        name = f"pgjobs-handler-{next(self._numbers)}"
        VitalThread(self._run, name=name).start()

    def _run(self) -> None:
        place = threading.get_ident()
        while True:
            attempt = self._waiting.get()
            if attempt is None:
                return
            self._running[place] = attempt
            self._moved_at = monotonic()
            self._work(attempt)
            with self._leaving:
                del self._running[place]
                if place in self._written_off:
                    self._written_off.discard(place)
                    return
