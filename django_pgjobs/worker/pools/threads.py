"""Handlers in threads of the worker's process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from ..attempts import Attempt


class ThreadPool:
    """A fixed number of threads that take attempts from one queue, in order.

    The threads are daemons: a handler that never returns cannot keep the process alive
    once the worker has given its job back.

    Args:
        size: number of threads.
        work: called with each attempt, in a thread of the pool. Must not raise.
    """

    def __init__(self, size: int, work: Callable[[Attempt], None]) -> None:
        self.size = size
        self._work = work
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        self._running: dict[int, Attempt] = {}
        self._threads = [
            threading.Thread(target=self._run, name=f"pgjobs-handler-{number}", daemon=True)
            for number in range(1, size + 1)
        ]

    @property
    def is_busy(self) -> bool:
        """True while a thread runs a handler."""
        return bool(self._running)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, in this order, as threads become free."""
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

    def interrupt(self, attempt: Attempt) -> None:
        """Do nothing: a thread cannot be stopped; its handler looks at its context."""

    def stop(self) -> None:
        """Let each thread end when it is free. Does not wait."""
        for _ in self._threads:
            self._waiting.put(None)

    def _run(self) -> None:
        place = threading.get_ident()
        while True:
            attempt = self._waiting.get()
            if attempt is None:
                return
            self._running[place] = attempt
            self._work(attempt)
            del self._running[place]
