"""Raise JobTimeout in the thread of a handler that runs too long.

``PyThreadState_SetAsyncExc`` delivers the exception at the next bytecode of that thread;
a handler inside a C call sees it when the call returns.
See https://docs.python.org/3/c-api/threads.html

The next bytecode may be that of a destructor, of a callback of weakref, or of one that somebody
has given to the garbage collector. What these raise goes to ``sys.unraisablehook`` and no further,
so there it is seen that a timeout got lost, and it is raised again.

On Python 3.11 a thread that could not be started leaves a record under the identity of the thread
that tried, and exceptions for that one go there. A handler in it does not see its timeout, and is
written off when its grace is over.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self

from ..exceptions import JobTimeout
from .vital import VitalThread

#: So many deadlines that nobody waits for are not worth the trouble.
_FEW: Final = 1_000

#: Seconds until a timeout that got lost is raised again: what lost it has ended by then.
_AGAIN_AFTER: Final = 0.02

#: In which block JobTimeout has been raised, by thread.
_interrupted: Final[dict[int, Deadline]] = {}


class Deadline:
    """A block of code in one thread that must end in time.

    As a context manager it makes sure that the exception is raised inside the block or
    not at all.

    Args:
        watch: who watches the clock.
        seconds: until the deadline, or None for no deadline.
        grace: further seconds until a block that has not ended then is overdue.
        on_overdue: called once, in the watch's thread, when it is.
        interrupts: raise JobTimeout in the block; False for a block that ends itself in time and
            may only become overdue.
    """

    def __init__(
        self,
        watch: DeadlineWatch,
        seconds: float | None,
        *,
        grace: float = 0.0,
        on_overdue: Callable[[], None] | None = None,
        interrupts: bool = True,
    ) -> None:
        self._watch = watch
        self._seconds = seconds
        self._grace = grace
        self._on_overdue = on_overdue
        self._interrupts = interrupts
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self.has_passed = False

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._thread_id = threading.get_ident()
            self._watch.add(monotonic() + self._seconds, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._seconds is None:
            return
        with self._lock:
            self._thread_id = None
            if self.has_passed and self._interrupts:
                _interrupted.pop(threading.get_ident(), None)
                if not isinstance(error, JobTimeout):
                    # Set, but not yet delivered: take it back.
                    _set_async_exception(threading.get_ident(), None)
        self._watch.drop(self)

    def pass_(self) -> None:
        """Raise in the block's thread, if the block has not ended; the second time, give it up."""
        with self._lock:
            if self._thread_id is None:
                return
            is_overdue, self.has_passed = self.has_passed, True
            if not is_overdue and self._interrupts:
                _interrupted[self._thread_id] = self
                _set_async_exception(self._thread_id, JobTimeout)
        if is_overdue and self._on_overdue is not None:
            self._on_overdue()
        elif self._on_overdue is not None:
            self._watch.add(monotonic() + self._grace, self)

    def raise_again(self) -> None:
        """Raise in the block's thread once more, soon, if the block has not ended then."""
        self._watch.add(monotonic() + _AGAIN_AFTER, Alarm(self._raise))

    def _raise(self) -> None:
        with self._lock:
            if self._thread_id is not None:
                _set_async_exception(self._thread_id, JobTimeout)


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something to do at a time.

    Attributes:
        act: called in the watch's thread. Must not wait, and must not raise.
    """

    act: Callable[[], None]

    def pass_(self) -> None:
        """Do it."""
        self.act()


class Passing(Protocol):
    """What a watch can let pass."""

    def pass_(self) -> None:
        """Called when its time has come."""


class DeadlineWatch:
    """A thread that lets deadlines pass. Started with the first deadline."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Passing]] = []
        self._dropped: set[Passing] = set()
        self._numbers = itertools.count()
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def add(self, at: float, deadline: Passing) -> None:
        """Let ``deadline`` pass at ``at``, on the monotonic clock."""
        with self._changed:
            heapq.heappush(self._heap, (at, next(self._numbers), deadline))
            if self._thread is None:
                _see_lost_timeouts()
                self._thread = VitalThread(self._run, name="pgjobs-deadlines")
                self._thread.start()
            elif self._heap[0][2] is deadline:
                self._changed.notify()

    def drop(self, deadline: Passing) -> None:
        """Forget a deadline that nobody waits for any more.

        They are taken out when they are most of what there is: else a job that ends in a
        second would be kept in memory for as long as its timeout.
        """
        with self._changed:
            self._dropped.add(deadline)
            if len(self._dropped) > max(_FEW, len(self._heap) // 2):
                self._heap = [entry for entry in self._heap if entry[2] not in self._dropped]
                heapq.heapify(self._heap)
                self._dropped.clear()

    def stop(self) -> None:
        """End the thread. Deadlines that have not passed never will."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_stopped and not self._is_due():
                    wait = self._heap[0][0] - monotonic() if self._heap else None
                    self._changed.wait(wait)
                if self._is_stopped:
                    return
                _, _, deadline = heapq.heappop(self._heap)
                is_dropped = deadline in self._dropped
                self._dropped.discard(deadline)
            if not is_dropped:
                deadline.pass_()

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= monotonic()


@cache
def _see_lost_timeouts() -> None:
    """Have lost timeouts raised again, in this process. Other exceptions go where they went."""
    previous = sys.unraisablehook

    def look(lost: sys.UnraisableHookArgs) -> None:
        deadline = _interrupted.get(threading.get_ident())
        if deadline is not None and issubclass(lost.exc_type, JobTimeout):
            deadline.raise_again()
        else:
            previous(lost)

    sys.unraisablehook = look


def _set_async_exception(thread_id: int, kind: type[BaseException] | None) -> None:
    argument = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), argument)
