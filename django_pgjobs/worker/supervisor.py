"""Keep several workers running, each a process of its own.

::

    supervisor ──lifeline──> worker 1
               ──lifeline──> worker 2
               ──lifeline──> …

A lifeline is a pipe on which nothing is ever sent. When the supervisor closes it, or dies, each
worker reads its end and drains. So there is one way to stop, whoever is asked, and a signal that
reaches supervisor and workers alike is no second signal to any of them.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from io import FileIO
from queue import Empty, SimpleQueue
from random import Random, SystemRandom
from time import monotonic
from typing import Final

from .restarting import pause_before_restart

logger = logging.getLogger("django_pgjobs.supervisor")

#: A worker that has lived for so many seconds is started again at once.
HEALTHY_AFTER: Final = 60.0

#: Starts worker number n, which drains when the descriptor reads its end.
Start = Callable[[int, int], "subprocess.Popen[bytes]"]


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """One worker process, from its start to its end."""

    number: int
    popen: subprocess.Popen[bytes]
    lifeline: FileIO
    began_at: float = field(default_factory=monotonic)


class Supervisor:
    """Starts workers, and starts anew those that end.

    Args:
        count: how many workers.
        start: how to start one.
        patience: how long workers that were told to stop may take before they are killed.
        random: source of jitter; a seeded one in tests.
    """

    def __init__(
        self, count: int, *, start: Start, patience: timedelta, random: Random | None = None
    ) -> None:
        self._count = count
        self._start = start
        self._patience = patience.total_seconds()
        self._random = random or SystemRandom()
        self._living: dict[int, Life] = {}
        self._failures: dict[int, int] = {}
        self._due: dict[int, float] = {}
        # Of ends of lives and of signals. put() is reentrant: a signal handler calls stop().
        self._events: SimpleQueue[Life | int] = SimpleQueue()

    def stop(self, number: int) -> None:
        """Have ``run`` return. May be called in a signal handler.

        Args:
            number: of the signal. At the second call, workers are killed.
        """
        self._events.put(number)

    def run(self) -> int:
        """Keep workers running until told to stop, and stop them.

        Returns:
            The exit code: 0 when all workers have drained, 1 when one has ended otherwise,
            128 + n at a second signal of number n.
        """
        logger.info("supervisor started: workers=%s", self._count)
        self._due = dict.fromkeys(range(1, self._count + 1), monotonic())
        while True:
            self._start_due()
            event = self._next_event(min(self._due.values(), default=None))
            if isinstance(event, int):
                break
            if event is not None:
                self._plan_restart(event)
        logger.info("supervisor stopping: workers=%s", len(self._living))
        exit_code = self._drain()
        logger.info("supervisor stopped: exit_code=%s", exit_code)
        return exit_code

    def _start_due(self) -> None:
        for number, at in list(self._due.items()):
            if at <= monotonic():
                del self._due[number]
                self._begin_life(number)

    def _begin_life(self, number: int) -> None:
        try:
            life = self._living[number] = self._new_life(number)
        except (OSError, RuntimeError) as error:
            # Neither memory, nor descriptors, nor threads may be there for now.
            self._failures[number] = self._failures.get(number, 0) + 1
            pause = pause_before_restart(self._failures[number], self._random)
            self._due[number] = monotonic() + pause
            logger.error("worker could not be started: number=%s %s", number, error)
            return
        logger.info("worker begun: number=%s pid=%s", number, life.popen.pid)

    def _new_life(self, number: int) -> Life:
        its_end, lifeline = os.pipe()
        try:
            popen = self._start(number, its_end)
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(its_end)
        life = Life(number, popen, FileIO(lifeline, "w"))
        name = f"pgjobs-wait-{number}"
        try:
            threading.Thread(target=self._wait, args=[life], name=name, daemon=True).start()
        except RuntimeError:
            # Nobody would hear of its end. It has not begun anything.
            life.lifeline.close()
            popen.kill()
            popen.wait()
            raise
        return life

    def _wait(self, life: Life) -> None:
        life.popen.wait()
        self._events.put(life)

    def _end_life(self, life: Life) -> int:
        del self._living[life.number]
        life.lifeline.close()
        return life.popen.returncode

    def _plan_restart(self, life: Life) -> None:
        exit_code = self._end_life(life)
        is_healthy = monotonic() - life.began_at >= HEALTHY_AFTER
        failures = 0 if is_healthy else self._failures.get(life.number, 0) + 1
        self._failures[life.number] = failures
        pause = pause_before_restart(failures, self._random)
        self._due[life.number] = monotonic() + pause
        logger.warning(
            "worker ended: number=%s pid=%s exit_code=%s restart_in=%.1f",
            life.number,
            life.popen.pid,
            exit_code,
            pause,
        )

    def _next_event(self, deadline: float | None) -> Life | int | None:
        """Return what happens next, or None when nothing does until ``deadline``."""
        timeout = max(0.0, deadline - monotonic()) if deadline is not None else None
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return None

    def _drain(self) -> int:
        for life in self._living.values():
            life.lifeline.close()
        deadline: float | None = monotonic() + self._patience
        exit_code = 0
        while self._living:
            event = self._next_event(deadline)
            if isinstance(event, Life):
                if self._end_life(event) and not exit_code:
                    exit_code = 1
                continue
            for life in self._living.values():
                life.popen.kill()
            if event is None:
                logger.error("workers killed: they have not stopped in time")
                deadline, exit_code = None, exit_code or 1
            else:
                exit_code = 128 + event
        return exit_code
