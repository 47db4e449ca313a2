"""Be told by signals to stop."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from itertools import count
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import Final, NoReturn, TypeVar

Result = TypeVar("Result")

#: Exit code of a process that does not manage to stop.
GIVEN_UP: Final = 3

#: What tells a process to stop. The last is sent when its terminal is closed.
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: Seconds within which a further signal is the same request as the first. timeout(1) and some
#: managers of processes send theirs to the process and then to its whole group, and what passes
#: on Ctrl-C does so to a process that the terminal has told already. The two are microseconds
#: apart, on a busy machine milliseconds; a person who insists takes longer.
SAME_REQUEST: Final = 0.5

#: Seconds after which a signal is noticed that the kernel has handed to another thread.
_TURN: Final = 0.2

#: Seconds for what the project has registered to happen at exit, and for its threads.
_LAST_HOOKS: Final = 5.0


def exit_at_once(number: int) -> NoReturn:
    """End this process as a signal of this number does, and leave everything as it is."""
    os._exit(128 + number)


def obey_signals(
    stop: Callable[[int], None], *, insist: Callable[[int], None] = exit_at_once
) -> None:
    """Have SIGTERM, SIGINT and SIGHUP stop this process in good order, and a later one at once.

    Under nohup, SIGHUP stays ignored.

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
    """Have signals end this process, which has nothing left to do in good order."""
    _set_handlers(signal.SIG_DFL)


def run_aside(
    work: Callable[[], Result], *, is_stopping: Callable[[], bool], patience: timedelta
) -> Result:
    """Do work in a thread of its own, while this one, the main thread, obeys signals.

    Python calls signal handlers in the main thread, between two of its steps. Often the kernel
    ends a wait of that thread for it, but not when it hands the signal to another one: to any,
    if the process is stopped, as by Ctrl-Z. So the main thread only waits in short turns.

    Nor does it trust the work to end once it is stopping: a receiver of the project's may hang, or
    whoever reads the log may have ceased to. Then the process ends as it is, with ``GIVEN_UP``.

    Args:
        work: to be done.
        is_stopping: says whether it has been told to end.
        patience: how long it may take to do so.
    """
    turns = patience.total_seconds() / _TURN
    with ThreadPoolExecutor(1, thread_name_prefix="pgjobs-main") as executor:
        future = executor.submit(work)
        while not wait([future], _TURN).done:
            # In turns and not by the clock: this process may itself be stopped for a while.
            turns -= is_stopping()
            if turns < 0:
                os._exit(GIVEN_UP)
    return future.result()


def leave(code: int, *, at_once: bool = False) -> NoReturn:
    """End this process, whatever the project has left behind.

    Args:
        code: to exit with.
        at_once: leave out what it has registered to happen at exit.
    """
    for stream in (sys.stdout, sys.stderr):
        # It may be closed, or never have been open.
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    if at_once:
        os._exit(code)
    Thread(target=_insist_on_leaving, args=[code], name="pgjobs-leave", daemon=True).start()
    sys.exit(code)


def _insist_on_leaving(code: int) -> None:
    sleep(_LAST_HOOKS)
    os._exit(code)


def _set_handlers(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in STOP_SIGNALS:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
