"""Start a worker anew when its code changes, for development.

::

    a file changes ──> a trial loads the project ──> the worker drains ──> exec
                              │ fails
                              └──> the old code goes on until the next change

What is watched is what ``runserver`` would watch of the same process, by the same means:
Django's ``StatReloader`` looks at the files of all modules that have been imported.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Final

from django.utils.autoreload import StatReloader, autoreload_started, file_changed

from .stopping import leave_signals

logger = logging.getLogger("django_pgjobs.worker")

#: Set where the command only tries whether it could begin.
_TRIAL: Final = "DJANGO_PGJOBS_TRIAL"

#: A project that takes longer to load hangs.
_TRIAL_TIMEOUT: Final = timedelta(minutes=1)

#: Lines of what a failed trial says: the last of a traceback name the place and the error.
_LINES: Final = 4


def is_trial() -> bool:
    """Return True when the command is to return where it would begin to work."""
    return _TRIAL in os.environ


class Watch(StatReloader):
    """Django's reloader, which collects what has changed and ends no process."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: list[str] = []

    def notify_file_changed(self, path: str | os.PathLike[str]) -> None:
        """Remember a file, unless a receiver has dealt with it, as Django does with templates."""
        answers = file_changed.send(sender=self, file_path=path)
        if not any(answer for _, answer in answers):
            self._changed.append(os.fspath(path))

    def take(self) -> list[str]:
        """Return what has changed, and forget it."""
        changed, self._changed = self._changed, []
        return changed

    def changes(self) -> Iterator[list[str]]:
        """Yield what has changed, about once a second; the first time, nothing."""
        autoreload_started.send(sender=self)
        while True:
            try:
                for _ in self.tick():
                    yield self.take()
            except Exception:
                # Of a receiver, or because modules are imported at this very moment.
                logger.exception("The code could not be watched, will retry")


class Reloader:
    """Stops a worker when its code has changed, and starts the same command anew.

    Args:
        stop: has the worker drain.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._changes = Watch().changes()
        self._is_due = False
        # What a relative path in the command starts from; a handler may go elsewhere.
        self._folder = Path.cwd()

    def start(self) -> None:
        """Watch in a thread, until something has changed and the project still loads."""
        Thread(target=self._watch, name="pgjobs-reloader", daemon=True).start()

    def start_anew(self, *, is_stopped: Callable[[], bool]) -> None:
        """Replace this process by the same command, if the worker was stopped for that.

        Process id, environment and open terminal stay. Threads end where they are. Returns
        when ``is_stopped`` says so, and nothing has happened then.
        """
        if not self._is_due:
            return
        # Somebody may have saved a file while the worker drained.
        while not is_stopped() and not self._loads():
            while not is_stopped() and not next(self._changes):
                pass
        leave_signals()
        if is_stopped():
            return
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(self._folder)
        os.execv(sys.executable, _command())

    def _watch(self) -> None:
        next(self._changes)
        logger.info("watching the code for changes")
        for changed in self._changes:
            if changed:
                logger.info("code changed: files=%s first=%s", len(changed), changed[0])
                if self._loads():
                    self._is_due = True
                    self._stop()
                    return

    def _loads(self) -> bool:
        """Say whether this command could begin with the code as it is; if not, log why."""
        try:
            trial = subprocess.run(
                _command(),
                cwd=self._folder,
                env={**os.environ, _TRIAL: "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Ctrl-C is not for it.
                process_group=0,
                timeout=_TRIAL_TIMEOUT.total_seconds(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.error("The new code cannot be tried, waiting for the next change: %s", error)
            return False
        if trial.returncode:
            logger.error(
                "The new code does not load, waiting for the next change:\n%s",
                _last_lines(trial.stdout),
            )
        return not trial.returncode


def _command() -> list[str]:
    """Return the command of this process, with the options of its interpreter."""
    return [sys.executable, *sys.orig_argv[1:]]


def _last_lines(output: bytes) -> str:
    lines = output.decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line.strip()][-_LINES:])
