"""One place of the pool of processes: a thread, and the process that it talks to."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from ...definitions.definition import JobDefinition
from ...definitions.registry import Registry
from ...exceptions import JobTimeout, ProcessDied
from ...store.execute import WorkerId
from ...store.finish import Ending, Success
from ..attempts import Attempt
from ..classifying import killed_at_timeout, lost, released, stopped
from ..recording import Recorded
from ..reporting import AttemptEnd, report
from ..timeouts import Alarm, DeadlineWatch
from .messages import Said
from .process import Killed, PoolProcess, ProcessEnded

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds in which a process must have loaded the project.
_START_WITHIN: Final = 120.0

#: Seconds in which a process that is not needed any more must have ended.
_END_WITHIN: Final = 5.0

#: Seconds after the grace in which a process writes where it hangs.
_LAST_WORDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """How processes work.

    Attributes:
        worker_id: of the worker.
        grace: how long a handler may go on after its timeout, or when it is not wanted any more.
        max_jobs: a process is replaced after so many; None for no limit.
        max_memory: a process is replaced when it has grown to so many bytes; None for no limit.
    """

    worker_id: WorkerId
    grace: timedelta
    max_jobs: int | None
    max_memory: int | None


class Place:
    """Runs one attempt after the other in a process, which it replaces when need be.

    ``prepare``, ``carry``, ``renew`` and ``close`` are for the place's own thread, the others
    for any.

    Args:
        options: how the process works.
        registry: of definitions.
        watch: of the time.
    """

    def __init__(self, options: ProcessOptions, registry: Registry, watch: DeadlineWatch) -> None:
        self._options = options
        self._registry = registry
        self._watch = watch
        self._lock = threading.Lock()
        self._process: PoolProcess | None = None
        self._attempt: Attempt | None = None
        self._is_unwanted = False
        self._is_stopped = False

    @property
    def is_busy(self) -> bool:
        """True while an attempt runs."""
        return self._attempt is not None

    def prepare(self) -> PoolProcess | None:
        """Have a process that waits for a job; return it, or None if it could not be started."""
        if self._process is not None and self._process.is_alive:
            return self._process
        if self._process is not None:
            logger.warning("A process has ended while it had nothing to do, and is replaced.")
            self.close()
        try:
            process = PoolProcess(self._options.worker_id)
        except (OSError, ImproperlyConfigured) as error:
            logger.error("A process could not be started, will retry: %s", error)
            return None
        with self._lock:
            self._process = process
            if self._is_stopped:
                process.kill(Killed.STOPPED)
        self._after(_START_WITHIN, lambda: self._kill_unless_ready(process))
        try:
            process.wait_until_ready()
        except ProcessEnded as end:
            self._process = None
            if end.killed is not Killed.STOPPED:
                logger.error(
                    "A process has ended before it was ready, will retry. What it wrote to the "
                    "terminal tells why. %s",
                    end,
                )
            return None
        return process

    def carry(self, attempt: Attempt) -> Success | Ending | Recorded | None:
        """Run an attempt; return its outcome, or None if there was no process for it."""
        if attempt.is_alone and self._process is not None and self._process.jobs_run:
            self.close()
        process = self.prepare()
        if process is None:
            return None
        with self._lock:
            self._attempt, self._is_unwanted = attempt, False
        try:
            # Looked at after it can be interrupted here: one of the two is in time.
            if attempt.context.is_cancelled or attempt.context.is_stopping:
                return released(attempt)
            return self._run(process, attempt)
        finally:
            with self._lock:
                self._attempt = None

    def renew(self, attempt: Attempt) -> None:
        """Let a process end that has done its part with ``attempt``."""
        if self._is_worn(attempt):
            self.close()

    def close(self) -> None:
        """Let the process end in good order."""
        process, self._process = self._process, None
        if process is not None:
            process.end(within=_END_WITHIN)

    def interrupt(self, attempt: Attempt) -> None:
        """Tell the handler of ``attempt``, if it runs here, to end; kill it after the grace."""
        with self._lock:
            if self._attempt is not attempt or self._process is None or self._is_unwanted:
                return
            self._is_unwanted = True
            self._process.cancel(attempt.job)
        self._kill_after(self._options.grace.total_seconds(), attempt, Killed.UNWANTED)

    def tell_stopping(self) -> None:
        """Tell the handler that the worker stops."""
        with self._lock:
            if self._process is not None:
                self._process.tell_stopping()

    def stop(self) -> None:
        """Kill a process that runs a handler, or that is not ready yet."""
        with self._lock:
            self._is_stopped = True
            process = self._process
            if process is not None and (self._attempt is not None or not process.is_ready):
                process.kill(Killed.STOPPED)

    def _run(self, process: PoolProcess, attempt: Attempt) -> Success | Ending | Recorded:
        definition = self._registry.find(attempt.job.job_name)
        alarm = None
        if definition is not None and definition.timeout is not None:
            seconds = (definition.timeout + self._options.grace).total_seconds()
            alarm = self._kill_after(seconds + _LAST_WORDS, attempt, Killed.TIMEOUT)
        if definition is not None:
            # Its progress is watched here, where its lease is renewed.
            attempt.context.begin(None, definition.progress_timeout)
        began = monotonic()
        try:
            return process.run(attempt.job, lambda said: _note(attempt, said)).outcome
        except ProcessEnded as end:
            with self._lock:
                self._process = None
            if end.killed is Killed.STOPPED or not end.has_begun:
                return released(attempt)
            return self._report(definition, attempt, end, monotonic() - began)
        finally:
            if alarm is not None:
                self._watch.drop(alarm)

    def _report(
        self,
        definition: JobDefinition | None,
        attempt: Attempt,
        end: ProcessEnded,
        duration: float,
    ) -> Ending:
        error: JobTimeout | ProcessDied
        if end.killed is Killed.TIMEOUT and definition is not None:
            error = JobTimeout(f"The handler did not end at its timeout. {end}")
            ending = killed_at_timeout(definition, attempt, error, end.last_words)
        else:
            error = ProcessDied(str(end), exit_code=end.exit_code)
            if end.killed is None:
                ending = lost(definition, attempt, error, end.last_words)
            else:
                ending = stopped(attempt, error)
        if definition is not None:
            # The process could not say it any more.
            report(AttemptEnd(definition, attempt.context, ending.outcome, error, duration))
        return ending

    def _is_worn(self, attempt: Attempt) -> bool:
        process, options = self._process, self._options
        if process is None:
            return False
        if options.max_jobs is not None and process.jobs_run >= options.max_jobs:
            logger.info("process replaced: pid=%s jobs=%s", process.pid, process.jobs_run)
            return True
        if options.max_memory is not None and process.memory >= options.max_memory:
            logger.info("process replaced: pid=%s bytes=%s", process.pid, process.memory)
            return True
        # It was killed too late to hit its handler.
        return attempt.is_alone or process.killed is not None

    def _kill_after(self, seconds: float, attempt: Attempt, reason: Killed) -> Alarm:
        return self._after(seconds, lambda: self._kill_if_running(attempt, reason))

    def _kill_if_running(self, attempt: Attempt, reason: Killed) -> None:
        with self._lock:
            if self._attempt is attempt and self._process is not None:
                self._process.kill(reason)

    def _kill_unless_ready(self, process: PoolProcess) -> None:
        with self._lock:
            if self._process is process and not process.is_ready:
                process.kill(Killed.NOT_READY)

    def _after(self, seconds: float, act: Callable[[], None]) -> Alarm:
        alarm = Alarm(act)
        self._watch.add(monotonic() + seconds, alarm)
        return alarm


def block_signals() -> None:
    """Keep SIGTERM and SIGINT from this thread, and from processes it starts until they are ready.

    A process decides for itself what they do to it, but only once it runs.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def _note(attempt: Attempt, said: Said) -> None:
    attempt.context.progress(said.current, said.total, said.message)
