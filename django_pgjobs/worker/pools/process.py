"""The worker's handle of one process of the pool."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final
from weakref import WeakSet

from ...store.claim import ClaimedJob
from ...store.execute import WorkerId
from ..interpreters import start_interpreter
from .child import CANCEL, STOPPING
from .messages import Done, Ready, Said, decode, encode

#: Most bytes of last words: the capacity of a pipe.
_LAST_WORDS_AT_MOST: Final = 65_536

#: Seconds in which a process that has hung up must be dead.
_DEAD_WITHIN: Final = 1.0

#: The worker's ends. A handler in a thread may fork, and its copies of them would hide from
#: the processes that the worker is dead.
_ends: WeakSet[Connection] = WeakSet()


def _close_copies() -> None:
    for end in list(_ends):
        end.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


class Killed(Enum):
    """Why the worker has killed a process; the value is a sentence about it."""

    NOT_READY = "It had not loaded the project in time."
    TIMEOUT = "It was killed by the worker after a grace."
    UNWANTED = "Its job was cancelled or its lease lost, and the handler went on."
    STOPPED = "The worker stopped."


class ProcessEnded(Exception):
    """The process has ended.

    Attributes:
        exit_code: of a signal, its number below zero.
        killed: why the worker has killed it, if it has.
        last_words: where it was, if it could say so.
        has_begun: it may have begun to run the job.
    """

    def __init__(
        self, exit_code: int, killed: Killed | None, last_words: str, *, has_begun: bool = True
    ) -> None:
        super().__init__(_describe(exit_code) + (f" {killed.value}" if killed else ""))
        self.exit_code = exit_code
        self.killed = killed
        self.last_words = last_words
        self.has_begun = has_begun


class PoolProcess:
    """A process that loads the project once and then runs one job at a time.

    ``start``, ``run`` and ``end`` are for one thread, the others for any. On Linux the process
    dies with the thread that has made it.

    Args:
        worker_id: of the worker.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, worker_id: WorkerId) -> None:
        self._jobs, its_jobs = Pipe()
        its_commands, self._commands = Pipe(duplex=False)
        self._last_words, its_last_words = os.pipe()
        self._commanding = threading.Lock()
        # A process that does not listen must not hold up who commands it.
        os.set_blocking(self._commands.fileno(), False)
        os.set_blocking(self._last_words, False)
        passed = (its_jobs.fileno(), its_commands.fileno(), its_last_words)
        try:
            self._popen: subprocess.Popen[bytes] = start_interpreter(
                "django_pgjobs.worker.pools.child:main",
                *passed,
                os.getpid(),
                worker_id,
                label=f"pgjobs process of {worker_id}",
                pass_fds=passed,
            )
        except BaseException:
            self._close()
            raise
        finally:
            its_jobs.close()
            its_commands.close()
            os.close(its_last_words)
        _ends.update((self._jobs, self._commands))
        self.is_ready = False
        self.jobs_run = 0
        self.memory = 0
        self.killed: Killed | None = None

    @property
    def is_alive(self) -> bool:
        """True while it has not ended."""
        return self._popen.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def wait_until_ready(self) -> None:
        """Return when it has loaded the project.

        Raises:
            ProcessEnded: it has not.
        """
        message = self._receive()
        self.is_ready = isinstance(message, Ready)

    def run(self, job: ClaimedJob, on_said: Callable[[Said], None]) -> Done:
        """Have it run a job; return when that is done.

        Args:
            job: to run.
            on_said: called with what the handler says about its progress.

        Raises:
            ProcessEnded: before it or in the middle of it.
        """
        try:
            self._jobs.send_bytes(encode(job))
        except OSError:
            raise self._ended(has_begun=False) from None
        while isinstance(message := self._receive(), Said):
            on_said(message)
        done: Done = message
        self.jobs_run += 1
        self.memory = done.memory
        return done

    def cancel(self, job: ClaimedJob) -> None:
        """Tell the handler of a job that its work is not wanted any more."""
        self._command(CANCEL + str(job.fence_token).encode())

    def tell_stopping(self) -> None:
        """Tell its handler that the worker stops."""
        self._command(STOPPING)

    def kill(self, reason: Killed) -> None:
        """Kill it, with what it has started. The first reason counts."""
        self.killed = self.killed or reason
        self._kill()

    def end(self, *, within: float) -> None:
        """Let it end in good order; kill it after ``within`` seconds."""
        self._jobs.close()
        try:
            self._popen.wait(within)
        except subprocess.TimeoutExpired:
            self._kill()
            self._popen.wait()
        self._close()

    def _kill(self) -> None:
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def _receive(self) -> Any:
        try:
            return decode(self._jobs.recv_bytes())
        except (EOFError, OSError, ValueError, LookupError, TypeError):
            # The last three: a handler has written to our descriptor.
            raise self._ended() from None

    def _command(self, command: bytes) -> None:
        with self._commanding, suppress(OSError):
            self._commands.send_bytes(command)

    def _ended(self, *, has_begun: bool = True) -> ProcessEnded:
        try:
            exit_code = self._popen.wait(_DEAD_WITHIN)
        except subprocess.TimeoutExpired:
            # It has closed its socket and lives on.
            self._kill()
            exit_code = self._popen.wait()
        last_words = b""
        with suppress(OSError):
            last_words = os.read(self._last_words, _LAST_WORDS_AT_MOST)
        self._close()
        return ProcessEnded(
            exit_code, self.killed, last_words.decode(errors="replace"), has_begun=has_begun
        )

    def _close(self) -> None:
        self._jobs.close()
        # Not while somebody writes: the number of the descriptor may be taken at once.
        with self._commanding:
            self._commands.close()
        os.close(self._last_words)


def _describe(exit_code: int) -> str:
    if exit_code >= 0:
        return f"The process exited with code {exit_code}."
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "unknown"
    return f"The process was killed by signal {-exit_code} ({name})."
