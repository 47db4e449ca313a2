"""Fixtures for tests that start real processes and send them real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import psycopg
import pytest

from tests.fix_database import url_of
from tests.invariants import check_invariants, make_ledger
from tests.ledger import VARIABLE, Noted, fill_enqueued, fill_executed, read_ledger

ROOT = Path(__file__).parent.parent

#: Bound of every wait, in seconds: generous, for a machine that is busy with other things.
PATIENCE = 60.0


def wait_until(condition: Callable[[], Any], what: str, *, patience: float = PATIENCE) -> Any:
    """Return the first true value of ``condition``.

    Raises:
        AssertionError: it did not come true in time; ``what`` says what was awaited.
    """
    tick, deadline = Event(), monotonic() + patience
    while not (value := condition()):
        assert monotonic() < deadline, f"waited {patience:.0f} s in vain: {what}"
        tick.wait(0.02)
    return value


def run_without_threads(program: str) -> None:
    """Run a program of tests/worker/threadless.py, and see it succeed."""
    subprocess.run(
        [sys.executable, "-m", "tests.worker.threadless", program],
        cwd=ROOT,
        check=True,
        timeout=PATIENCE,
    )


def state_of(pid: int) -> str:
    """Return the letter that ps shows for the state of a process."""
    shown = subprocess.run(
        ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()[:1]


@dataclass
class Process:
    """A management command that runs in a process of its own."""

    popen: subprocess.Popen[bytes]
    log: Path
    started_at: float = field(default_factory=monotonic)

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return monotonic() - self.started_at

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.popen.pid

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.popen.send_signal(number)

    def send_together(self, *numbers: signal.Signals) -> None:
        """Send signals that arrive at the same time: it is stopped until all have been sent."""
        self.send(signal.SIGSTOP)
        wait_until(lambda: state_of(self.pid) == "T", "it is stopped")
        for number in (*numbers, signal.SIGCONT):
            self.send(number)

    def insist(self, number: signal.Signals) -> int:
        """Send a signal again and again until it ends; return the exit code."""

        def has_ended() -> bool:
            self.send(number)
            return self.popen.poll() is not None

        wait_until(has_ended, "it ends")
        return self.wait()

    def kill(self) -> None:
        """Kill it, as the kernel would."""
        self.send(signal.SIGKILL)
        self.popen.wait(PATIENCE)

    def wait(self, patience: float = PATIENCE) -> int:
        """Return the exit code when it has ended."""
        return self.popen.wait(patience)

    def output(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Processes:
    """Starts commands against the test database, and keeps their ledger.

    Attributes:
        folder: for logs and ledger.
        database_url: how the commands reach the database.
        connection: the test's own, which goes there directly.
        environment: of the commands, beside that of this process.
    """

    folder: Path
    database_url: str
    connection: psycopg.Connection[Any]
    environment: dict[str, str] = field(default_factory=dict)
    started: list[Process] = field(default_factory=list)

    @property
    def ledger(self) -> Path:
        """The file to which handlers write their starts and ends."""
        return self.folder / "ledger"

    def start(
        self,
        *command: str,
        durations: dict[str, float] | None = None,
        under: Sequence[str] = (),
    ) -> Process:
        """Start a management command.

        Args:
            command: its name and options.
            durations: other values of PGJOBS, in seconds.
            under: a program that runs it, with its arguments.
        """
        log = self.folder / f"{len(self.started)}-{command[0]}.log"
        environment = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
            VARIABLE: str(self.ledger),
            "PGJOBS_TEST_DURATIONS": json.dumps(durations or {}),
            "PYTHONUNBUFFERED": "1",
            **self.environment,
        }
        with log.open("wb") as stream:
            popen = subprocess.Popen(
                [*under, sys.executable, "-m", "django", *command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        process = Process(popen, log)
        self.started.append(process)
        return process

    def worker(self, *options: str, durations: dict[str, float] | None = None) -> Process:
        """Start a worker and wait until it works."""
        process = self.start("pgjobs_worker", *options, durations=durations)
        self._wait_for_line(process, "worker started")
        return process

    def wait_for_sleepers(self, workers: int) -> None:
        """Return when so many workers sleep: they have been idle for longer than they look on."""
        query = "SELECT count(*) FROM job_workers WHERE idle_since < now() - interval '1.5 s'"
        wait_until(lambda: self.value(query) == workers, f"{workers} workers sleep")

    def maintenance(self, durations: dict[str, float] | None = None) -> Process:
        """Start maintenance and wait until it works."""
        process = self.start("pgjobs_maintain", durations=durations)
        self._wait_for_line(process, "maintenance started")
        return process

    def _wait_for_line(self, process: Process, line: str) -> None:
        wait_until(
            lambda: line in process.output() or process.popen.poll() is not None, repr(line)
        )
        assert process.popen.poll() is None, process.output()

    def events(self, event: str | None = None) -> list[Noted]:
        """Return what handlers wrote down: all of it, or every ``start`` or ``end``."""
        events = read_ledger(self.ledger).events
        return [noted for noted in events if event is None or noted.name == event]

    def value(self, query: str, *params: Any) -> Any:
        """Return the first column of the first row of a query, or None."""
        row = self.connection.execute(query, params).fetchone()
        return row[0] if row else None

    def status_of(self, job_id: int) -> str | None:
        """Return a job's status, wherever it is."""
        return self.value(
            "SELECT status::text FROM jobs_active WHERE id = %s "
            "UNION ALL SELECT status::text FROM jobs_completed WHERE id = %s",
            job_id,
            job_id,
        )

    def wait_for_status(self, job_id: int, status: str) -> None:
        """Return when a job has reached a status."""
        wait_until(lambda: self.status_of(job_id) == status, f"job {job_id} becomes {status}")

    def wait_for_start(self, job_id: int, claim: int = 1) -> int:
        """Return the process id of the handler that began this claim of a job."""

        def find() -> int | None:
            for event in self.events("start"):
                if (event.job_id, event.claim) == (job_id, claim):
                    return event.pid
            return None

        pid = wait_until(find, f"claim {claim} of job {job_id} starts")
        return int(pid)

    def wait_until_empty(self, patience: float = PATIENCE) -> None:
        """Return when every job has finished."""
        wait_until(
            lambda: not self.value("SELECT EXISTS (SELECT FROM jobs_active)"),
            "every job finishes",
            patience=patience,
        )

    def check_invariants(self, enqueued: list[int], *, quiet: bool = True) -> None:
        """Check the invariants of the protocol against what handlers wrote down.

        Args:
            enqueued: ids of every job whose enqueue was committed.
            quiet: everything has ended.
        """
        make_ledger(self.connection)
        fill_enqueued(self.connection, enqueued)
        fill_executed(self.connection, self.events())
        violations = check_invariants(self.connection, ledger=True, quiet=quiet)
        assert violations == []


@pytest.fixture
def processes(connection: psycopg.Connection[Any], tmp_path: Path) -> Iterator[Processes]:
    """Start processes against the test database; none of them outlives the test."""
    with running_processes(tmp_path, url_of(connection), connection) as running:
        yield running


@contextmanager
def running_processes(
    folder: Path,
    database_url: str,
    connection: psycopg.Connection[Any],
    environment: dict[str, str] | None = None,
) -> Iterator[Processes]:
    """Start processes; end those that still run at the end, and print their logs."""
    running = Processes(folder, database_url, connection, environment or {})
    try:
        yield running
    finally:
        for process in running.started:
            if process.popen.poll() is None:
                process.send(signal.SIGCONT)
                process.kill()
            # pytest shows it when the test has failed.
            print(f"--- {process.log.name}: exit code {process.popen.returncode}")
            print(process.output()[-20_000:])
