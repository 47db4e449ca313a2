"""Run a worker in this process, alone or under a supervisor."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from threading import Thread
from typing import Final, NoReturn

from django.db import connections

from ..conf import PgJobsSettings, get_settings
from ..definitions.registry import registry
from ..maintenance.maintainer import Maintainer
from ..terminal import log_to_stderr
from ..worker.connections import connections_needed
from ..worker.interpreters import start_interpreter
from ..worker.queries import QueryWatch
from ..worker.supervisor import Supervisor
from ..worker.vital import VitalThread
from ..worker.worker import StopReason, Worker, WorkerOptions
from .reloading import Reloader
from .starting import wait_for_schema, warn_of_connections
from .stopping import leave, obey_signals, run_aside

#: What a worker may need beyond its shutdown timeout, to write its last outcomes.
SLACK: Final = timedelta(seconds=15)


#: What a worker needs for that where nothing answers: what waits, waits for so long in all.
LONGEST_DRAIN: Final = timedelta(seconds=30)

#: What maintenance in a worker's process gets at the end, for the step under way. Its leadership
#: runs out by itself if that is too little.
LAST_STEP: Final = timedelta(seconds=2)


class Stopper:
    """Has signals, and the end of a supervisor, stop a worker.

    Args:
        worker: to stop.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.is_stopped = False

    def obey_signals(self) -> None:
        """Drain at the first SIGTERM or SIGINT; exit at a later one."""
        obey_signals(lambda number: self._stop())

    def obey_lifeline(self, descriptor: int) -> None:
        """Drain when ``descriptor`` reads its end."""
        os.set_inheritable(descriptor, False)
        Thread(target=self._hold, args=[descriptor], name="pgjobs-lifeline", daemon=True).start()

    def _hold(self, descriptor: int) -> None:
        os.read(descriptor, 1)
        self._stop()

    def _stop(self) -> None:
        self.is_stopped = True
        self._worker.stop()


def run_worker(
    options: WorkerOptions,
    *,
    maintains: bool,
    reloads: bool = False,
    lifeline: int | None = None,
    label: str = "",
) -> NoReturn:
    """Run a worker, and end the process when it has stopped.

    Args:
        options: of the worker.
        maintains: run maintenance in this process too.
        reloads: when the code has changed, drain and start anew with it.
        lifeline: descriptor that reads its end when the worker should stop.
        label: put before each log line on the terminal.

    Raises:
        CommandError: the tables are missing or not up to date.
    """
    QueryWatch(comments=options.settings.comment_queries).start()
    worker = Worker(options, registry)
    stopper = Stopper(worker)
    stopper.obey_signals()
    if lifeline is not None:
        stopper.obey_lifeline(lifeline)
    log_to_stderr(label)
    reloader = Reloader(worker.stop) if reloads else None
    if reloader:
        reloader.start()
    wait_for_schema(options.settings.database, is_stopped=lambda: stopper.is_stopped)
    if stopper.is_stopped:
        leave(0)
    warn_of_connections(
        options.settings, connections_needed(options, registry, maintains=maintains)
    )
    with maintenance_beside(options.settings) if maintains else nullcontext():
        reason = run_aside(
            worker.run,
            is_stopping=lambda: worker.is_stopping,
            patience=options.settings.shutdown_timeout + LONGEST_DRAIN,
        )
    if reloader and reason is StopReason.DRAINED:
        reloader.start_anew(is_stopped=lambda: stopper.is_stopped)
    # Their jobs have been given back; their threads would keep the process alive.
    leave(reason.value, at_once=worker.has_unfinished_handlers)


@contextmanager
def maintenance_beside(settings: PgJobsSettings) -> Iterator[None]:
    """Run maintenance in a thread; at the end, have it hand over to another process."""
    maintainer = Maintainer.from_settings(settings, registry)
    thread = VitalThread(maintainer.run, name="pgjobs-maintenance")
    thread.start()
    yield
    maintainer.stop()
    thread.join(LAST_STEP.total_seconds())


def supervise(count: int, options: WorkerOptions, *, maintains: bool) -> NoReturn:
    """Run several workers, each in a process of its own, and end when they have stopped.

    Args:
        count: how many.
        options: of each.
        maintains: run maintenance in the first one too.

    Raises:
        CommandError: the tables are missing or not up to date.
    """
    text = _to_text(options)

    def start(number: int, lifeline: int) -> subprocess.Popen[bytes]:
        return start_interpreter(
            f"{__package__}.supervised:run_supervised",
            number,
            lifeline,
            int(maintains and number == 1),
            text,
            label=f"pgjobs worker {number} of {count}",
            pass_fds=[lifeline],
        )

    supervisor = Supervisor(count, start=start, patience=options.settings.shutdown_timeout + SLACK)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        supervisor.stop(number)

    obey_signals(stop, insist=stop)
    log_to_stderr()
    wait_for_schema(options.settings.database, is_stopped=lambda: bool(received))
    connections.close_all()
    if received:
        leave(0)
    leave(
        run_aside(
            supervisor.run,
            is_stopping=lambda: bool(received),
            # It kills them itself before that.
            patience=options.settings.shutdown_timeout + 2 * SLACK,
        )
    )


def _to_text(options: WorkerOptions) -> str:
    names = [field.name for field in dataclasses.fields(options) if field.name != "settings"]
    return json.dumps({name: getattr(options, name) for name in names})


def options_of(text: str) -> WorkerOptions:
    """Return the options that ``supervise`` has written into ``text``."""
    return WorkerOptions(settings=get_settings(), **json.loads(text))
