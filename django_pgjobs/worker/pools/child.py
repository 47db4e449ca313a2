"""The process's side of the pool of processes: runs one job at a time, in its main thread."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any, Final

import django

from ...conf import PgJobsSettings, get_settings
from ...definitions.pools import PROCESSES
from ...definitions.registry import Registry, registry
from ...store.claim import ClaimedJob
from ...store.execute import FenceToken, WorkerId, read_statements
from ...terminal import log_to_stderr
from ..attempts import Attempt, context_of
from ..execution import Execution
from ..measuring import RunTime
from ..queries import QueryWatch
from ..timeouts import DeadlineWatch
from .messages import Done, Message, Ready, Said, decode, encode

#: On the pipe of commands.
STOPPING: Final = b"stopping"
CANCEL: Final = b"cancel "

_PR_SET_PDEATHSIG: Final = 1

#: Seconds between two looks at what a handler says about its progress.
_TELL_EVERY: Final = 0.2


def main(jobs: int, commands: int, last_words: int, parent: int, worker_id: str) -> None:
    """Load the project and run jobs until there are no more.

    Args:
        jobs: descriptor of the socket on which jobs come and outcomes go.
        commands: descriptor of the pipe of commands.
        last_words: descriptor to which a crash writes where it was.
        parent: the worker's process id.
        worker_id: of the worker.
    """
    _survive_signals()
    _die_with(parent)
    faulthandler.enable(file=last_words, all_threads=False)
    child = Child(_own(jobs), _own(commands), WorkerId(worker_id), last_words)
    child.listen()
    django.setup()
    log_to_stderr()
    read_statements()
    child.serve(registry, get_settings())
    # With what the project has registered to happen at exit.
    sys.exit(0)


class Child:
    """One process of the pool.

    Args:
        jobs: where jobs come and outcomes go.
        commands: what must not wait for the handler.
        worker_id: of the worker.
        last_words: descriptor to which a stack can be written.
    """

    def __init__(
        self, jobs: Connection, commands: Connection, worker_id: WorkerId, last_words: int
    ) -> None:
        self._jobs = jobs
        self._commands = commands
        self._worker_id = worker_id
        self._last_words = last_words
        self._stopping = threading.Event()
        self._attempt: Attempt | None = None
        self._sending = threading.Lock()
        self._unwanted: FenceToken | None = None

    def listen(self) -> None:
        """Obey commands, in a thread."""
        threading.Thread(target=self._obey, name="pgjobs-commands", daemon=True).start()

    def serve(self, definitions: Registry, settings: PgJobsSettings) -> None:
        """Run jobs until the worker hangs up."""
        execution = Execution.from_settings(
            settings,
            registry=definitions,
            run_time=RunTime(),
            watch=DeadlineWatch(),
            # The worker sees to it, also where this process cannot any more.
            on_overdue=lambda attempt: None,
            worker_id=self._worker_id,
        )
        QueryWatch(comments=settings.comment_queries).start()
        threading.Thread(target=self._tell_progress, name="pgjobs-progress", daemon=True).start()
        self._send(Ready())
        while (job := self._next_job()) is not None:
            definition = definitions.find(job.job_name)
            if definition is not None and definition.timeout is not None:
                # Written by a thread that needs no lock of the interpreter, just before the
                # worker kills this process.
                seconds = (definition.timeout + settings.timeout_grace).total_seconds()
                faulthandler.dump_traceback_later(seconds, file=self._last_words)
            outcome = execution.run(self._begin(job))
            faulthandler.cancel_dump_traceback_later()
            # One that the handler has left would go off in the next job.
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._attempt = None
            self._send(Done(outcome, resident_bytes()))

    def _send(self, message: Message) -> None:
        with self._sending:
            self._jobs.send_bytes(encode(message))

    def _tell_progress(self) -> None:
        told: tuple[Attempt | None, Said | None] = None, None
        while True:
            sleep(_TELL_EVERY)
            attempt = self._attempt
            said = _said(attempt) if attempt is not None else None
            with self._sending:
                # Never after the end of its job.
                if said is not None and (attempt, said) != told and self._attempt is attempt:
                    self._jobs.send_bytes(encode(said))
                    told = attempt, said

    def _next_job(self) -> ClaimedJob | None:
        try:
            job: ClaimedJob = decode(self._jobs.recv_bytes())
        except (EOFError, OSError):
            return None
        return job

    def _begin(self, job: ClaimedJob) -> Attempt:
        context = context_of(job, self._worker_id, self._stopping)
        self._attempt = attempt = Attempt(job, context, PROCESSES)
        # The command may have come before the job.
        if self._unwanted == job.fence_token:
            context.cancel()
        return attempt

    def _obey(self) -> None:
        while True:
            try:
                command = self._commands.recv_bytes()
            except (EOFError, OSError):
                # The worker is dead. Its jobs will run elsewhere.
                os._exit(1)
            if command == STOPPING:
                self._stopping.set()
            elif command.startswith(CANCEL):
                self._unwanted = FenceToken(int(command.removeprefix(CANCEL)))
                attempt = self._attempt
                if attempt is not None and attempt.job.fence_token == self._unwanted:
                    attempt.context.cancel()


def _said(attempt: Attempt) -> Said | None:
    progress = attempt.context.last_progress
    current, total, message = (None, None, "") if progress is None else progress.said
    return None if current is None else Said(current, total, message)


def resident_bytes() -> int:
    """Return the memory of this process; where only the most it ever had is known, that."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        import resource  # noqa: PLC0415 - not on every system

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _survive_signals() -> None:
    """Leave stopping to the worker.

    Ctrl-C and many a manager of processes send their signal to every process, but a running
    job may go on until the worker says otherwise.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not SIG_IGN: that would be inherited by programs that a handler starts.
        signal.signal(number, _ignore)
        signal.siginterrupt(number, False)
    # The worker's thread has blocked them until here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})


def _ignore(number: int, frame: Any) -> None:
    """Do nothing."""


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its worker dies, also while it runs C code.

    Linux only. Elsewhere the thread that listens for commands ends the process as soon as the
    interpreter lets it run.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _own(descriptor: int) -> Connection:
    """Keep a descriptor from what a handler starts: it would hide that this process is dead."""
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    os.register_at_fork(after_in_child=connection.close)
    return connection
