"""Handlers defined with ``async def``, in one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import logging
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from ...store.finish import Ending, Success
from ..attempts import Attempt
from ..classifying import released
from ..stacks import stack_of_thread
from ..vital import VitalThread
from .lanes import ClosingExecutor, Lane
from .loop_watch import LoopWatch

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds in which cancelled handlers may end when the worker stops.
_LAST_MOMENT: Final = 2.0

Outcome = Success | Ending
Work = Callable[[Attempt], Coroutine[Any, Any, Outcome]]
FinishAll = Callable[[Sequence[tuple[Attempt, Outcome]]], None]


class LoopPool:
    """Runs each attempt in a task of its own, up to ``size`` at a time.

    The thread is a daemon: a handler that blocks it for ever cannot keep the process alive. What
    the loop needs for each job it does for many at once: one wake-up for all that are submitted
    together, one call of ``finish_all`` for all that end in one turn.

    Args:
        size: tasks at a time.
        work: carries an attempt to its outcome. Must not raise.
        finish_all: takes outcomes, in the loop's thread.
        threads: how many threads the handlers share for Django's ORM.
        grace: how long a handler may go on after its timeout.
        patience: how long a handler may block the loop.
        on_overdue: called with an attempt whose handler has gone on for longer.
        on_stuck: called when the loop is of no use any more: it was blocked for too long by the
            handler of this attempt, or it has ended.
    """

    def __init__(
        self,
        size: int,
        work: Work,
        finish_all: FinishAll,
        *,
        threads: int,
        grace: timedelta,
        patience: timedelta,
        on_overdue: Callable[[Attempt], None],
        on_stuck: Callable[[Attempt | None], None],
    ) -> None:
        self.size = size
        self._work = work
        self._finish_all = finish_all
        self._on_stuck = on_stuck
        self._lanes = [Lane() for _ in range(threads)]
        self._turns: Iterator[Lane] | None = None
        self._waiting: deque[Attempt] = deque()
        # When attempts last came or began.
        self._moved_at = 0.0
        # Changed in the loop's thread, and by write_off: whoever takes an attempt out, has it.
        self._running: dict[Attempt, tuple[asyncio.Task[None], Lane]] = {}
        self._interrupted: set[Attempt] = set()
        self._written_off: set[Attempt] = set()
        self._outcomes: list[tuple[Attempt, Outcome]] = []
        self._is_ending = False
        self._loop: asyncio.AbstractEventLoop
        self._free = asyncio.Event()
        self._thread = VitalThread(self._run, name="pgjobs-loop")
        self._watch = LoopWatch(
            self, grace=grace, patience=patience, on_overdue=on_overdue, on_stuck=on_stuck
        )

    @property
    def is_busy(self) -> bool:
        """True while a handler runs, or what it has left behind in a thread."""
        return bool(self._running) or (self._is_ending and self._thread.is_alive())

    @property
    def stuck(self) -> int:
        """Handlers that were written off and have not ended."""
        return len(self._written_off)

    def start(self) -> None:
        """Start the threads."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._watch.start()

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, in this order, as places become free."""
        self._moved_at = monotonic()
        self._waiting.extend(attempts)
        self.call(self._fill)

    def take_back(self) -> list[Attempt]:
        """Return the attempts that have no task, and forget them: the worker stops."""
        taken: list[Attempt] = []
        with suppress(IndexError):
            while True:
                taken.append(self._waiting.popleft())
        return taken

    def take_back_ahead(self, patience: float) -> list[Attempt]:
        """Return what waits for a place behind handlers that take long, and forget it.

        Nothing while there are places: then a handler blocks the loop, and the watch sees to that.
        """
        has_places = len(self._running) < self.size
        if has_places or monotonic() - self._moved_at < patience:
            return []
        return self.take_back()

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel the task of an attempt, once: its handler may take its time to clean up."""
        self.call(self._interrupt, attempt)

    def write_off(self, attempt: Attempt) -> str | None:
        """Give up the task that runs ``attempt``; another may take its place.

        Returns:
            Where it is just now, as a traceback; None if it does not run any more.
        """
        task, _ = self._running.pop(attempt, (None, None))
        if task is None:
            return None
        self._written_off.add(attempt)
        self.call(self._fill)
        return self.stack_of(task)

    def stop(self) -> None:
        """Cancel what runs and end the loop. Waits a moment for handlers that clean up."""
        self._is_ending = True
        self._watch.stop()
        self.call(self._begin_end)
        self._thread.join(_LAST_MOMENT)

    # For the watch, in its thread.

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function in the loop, soon; never if the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def running(self) -> list[Attempt]:
        """Return the attempts that have a task."""
        return list(self._running)

    def current(self) -> tuple[Attempt | None, str]:
        """Return whose turn it is, if that is known, and where the loop's thread is."""
        task = asyncio.current_task(self._loop)
        running = self._running.copy()
        # A task that a handler has started itself is nobody's.
        attempt = next((one for one, (its, _) in running.items() if its is task), None)
        return attempt, stack_of_thread(self._thread.ident)

    def stack_of(self, task: asyncio.Task[None]) -> str:
        """Return where a task is, as a traceback."""
        if asyncio.current_task(self._loop) is task:
            return stack_of_thread(self._thread.ident)
        frames = [(frame, frame.f_lineno) for frame in _frames(task.get_coro())]
        return "".join(traceback.StackSummary.extract(frames).format())

    # In the loop's thread.

    def sweep(self) -> None:
        """Give back attempts whose tasks somebody has cancelled before they began.

        Such a task ends without a word. To look for them now and then costs less than to be
        called at the end of each.
        """
        for attempt, (task, _) in list(self._running.items()):
            if task.done():
                self._note(attempt, released(attempt))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            loop = runner.get_loop()
            loop.set_default_executor(ClosingExecutor(thread_name_prefix="pgjobs-async"))
            main = loop.create_task(self._main())
            while not main.done():
                try:
                    loop.run_until_complete(main)
                except (SystemExit, KeyboardInterrupt, RuntimeError):
                    # The first two come out here from a task that a handler has started. They end
                    # that task and not the loop; nor does a handler that stops the loop. Anything
                    # else is the loop's own, say that a descriptor of it was closed, and would
                    # come again at once.
                    if loop.is_closed():
                        raise
                    logger.exception("An exception came out of the event loop")
        if not self._is_ending:
            self._on_stuck(None)

    async def _main(self) -> None:
        for lane in self._lanes:
            await lane.open()
        self._turns = itertools.cycle(self._lanes)
        self._fill()
        await self._free.wait()
        for lane in self._lanes:
            await lane.close()

    def _fill(self) -> None:
        if self._turns is None:
            return
        with suppress(IndexError):  # nothing waits, or it was taken back just now
            while len(self._running) < self.size:
                self._begin(self._waiting.popleft(), next(self._turns))
                self._moved_at = monotonic()

    def _begin(self, attempt: Attempt, lane: Lane) -> None:
        task = self._loop.create_task(self._carry(attempt), context=lane.context_of_job())
        self._running[attempt] = task, lane

    async def _carry(self, attempt: Attempt) -> None:
        self._note(attempt, await self._work(attempt))

    def _note(self, attempt: Attempt, outcome: Outcome) -> None:
        _, lane = self._running.pop(attempt, (None, None))
        self._interrupted.discard(attempt)
        if lane is None:
            self._written_off.discard(attempt)
            return
        lane.clean_if_needed()
        if not self._outcomes:
            self._loop.call_soon(self._flush)
        self._outcomes.append((attempt, outcome))

    def _flush(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        self._finish_all(outcomes)
        self._fill()
        self._end_if_free()

    def _interrupt(self, attempt: Attempt) -> None:
        task, _ = self._running.get(attempt, (None, None))
        if task is not None and attempt not in self._interrupted:
            self._interrupted.add(attempt)
            # After its first step, which is waiting in line if the task is new: one that is
            # cancelled before would end without a word.
            self._loop.call_soon(task.cancel)

    def _begin_end(self) -> None:
        for attempt in list(self._running):
            self._interrupt(attempt)
        self._end_if_free()

    def _end_if_free(self) -> None:
        if self._is_ending and not self._running and not self._outcomes:
            self._free.set()


def _frames(awaited: Any) -> Iterator[Any]:
    """Yield the frames of a coroutine that waits, from the outermost to where it waits."""
    while awaited is not None:
        for name, waits_for in _KINDS:
            if (frame := getattr(awaited, name, None)) is not None:
                yield frame
                awaited = getattr(awaited, waits_for)
                break
        else:
            return


#: Coroutines and generators have the same, under other names.
_KINDS: Final = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
