"""Be told by signals to stop."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from math import inf
from time import monotonic
from typing import Final, NoReturn, TypeVar

Result = TypeVar("Result")

#: What tells a process to stop.
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

#: Seconds within which a further signal is the same request as the first. timeout(1) and some
#: managers of processes send theirs to the process and then to its whole group, and what passes
#: on Ctrl-C does so to a process that the terminal has told already. The two are microseconds
#: apart, on a busy machine milliseconds; a person who insists takes longer.
SAME_REQUEST: Final = 0.5

#: Seconds after which a signal is noticed that the kernel has handed to another thread.
_TURN: Final = 0.2


def exit_at_once(number: int) -> NoReturn:
    """End this process as a signal of this number does, and leave everything as it is."""
    os._exit(128 + number)


def obey_signals(
    stop: Callable[[int], None], *, insist: Callable[[int], None] = exit_at_once
) -> None:
    """Have SIGTERM and SIGINT stop this process in good order, and a later one at once.

    Args:
        stop: called once, at the first signal, with its number. It runs in a signal handler.
        insist: called at a signal that comes ``SAME_REQUEST`` after the first, or later.
    """
    turns, first_at = count(), inf

    def handle(number: int, frame: object) -> None:
        # Counted in one step: another signal may interrupt this very function.
        nonlocal first_at
        if next(turns) == 0:
            first_at = monotonic()
            stop(number)
        elif monotonic() - first_at >= SAME_REQUEST:
            insist(number)

    _set_handlers(handle)
    # Registered first, so called last: what has ended in good order says so in its exit code,
    # also when another signal meets an interpreter that has put away our handlers.
    atexit.register(_set_handlers, signal.SIG_IGN)


def leave_signals() -> None:
    """Have SIGTERM and SIGINT end this process, which has nothing left to do in good order."""
    _set_handlers(signal.SIG_DFL)


def run_aside(work: Callable[[], Result]) -> Result:
    """Do work in a thread of its own, while this one, the main thread, obeys signals.

    Python calls signal handlers in the main thread, between two of its steps. Often the kernel
    ends a wait of that thread for it, but not when it hands the signal to another one: to any,
    if the process is stopped, as by Ctrl-Z. So the main thread only waits in short turns.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="pgjobs-main") as executor:
        future = executor.submit(work)
        while not wait([future], _TURN).done:
            pass
    return future.result()


def _set_handlers(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, handler)
