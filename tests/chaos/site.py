"""The site that chaos comes to: a server, proxies, workers, maintenance, producers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.chaos.proxy import Proxy
from tests.fix_workers import PATIENCE, ROOT, Process
from tests.ledger import VARIABLE
from tools.machine import LOOPBACK, command_line
from tools.postgres import USER, PostgresServer

#: Nothing here must survive a crash of the machine, only of the server.
SERVER_SETTINGS: Final = {
    "fsync": False,
    "full_page_writes": False,
    "deadlock_timeout": "500ms",
    "log_statement": "none",
}

TABLES: Final = """
CREATE TABLE chaos_effects (job_id bigint NOT NULL, claim integer NOT NULL, token text NOT NULL);
CREATE TABLE chaos_orders (token text NOT NULL);
INSERT INTO tenant_config (tenant_id, quota_weight, max_concurrent_jobs, priority_boost)
    VALUES (1, 10, 3, 0), (2, 20, 2, 0), (3, 5, NULL, 0);
INSERT INTO queue_config (queue_name, paused) VALUES ('default', false), ('other', false);
"""


@dataclass
class Place:
    """Where one process at a time runs, behind a proxy.

    Attributes:
        name: of the place.
        command: arguments of Python.
        proxy: between the process and the server, if any.
        process: the one that runs there.
        starts: how many have run there.
    """

    name: str
    command: tuple[str, ...]
    proxy: Proxy | None
    process: Process | None = None
    starts: int = 0

    @property
    def is_alive(self) -> bool:
        """True while its process runs, or is stopped."""
        return self.process is not None and self.process.popen.poll() is None

    @property
    def running(self) -> Process:
        """The process that was started here last."""
        assert self.process is not None, f"nothing was started at {self.name}"
        return self.process


@dataclass
class Site:
    """Everything that runs.

    Attributes:
        server: of its own.
        folder: logs and ledger.
        environment: of every process.
        places: of all processes.
        ended: every process that has been replaced.
    """

    server: PostgresServer
    folder: Path
    environment: dict[str, str]
    places: list[Place] = field(default_factory=list)
    ended: list[Process] = field(default_factory=list)
    _starting: threading.RLock = field(default_factory=threading.RLock)

    @property
    def ledger(self) -> Path:
        """What the processes write down."""
        return self.folder / "ledger"

    def named(self, name: str) -> list[Place]:
        """Return the places of the workers, of maintenance or of the producers."""
        return [place for place in self.places if place.name.startswith(name)]

    def start(self, place: Place) -> None:
        """Start another process at a place, whatever has become of the one before."""
        with self._starting:
            if place.process is not None:
                self.ended.append(place.process)
            place.starts += 1
            place.process = self._start(place, f"{place.name}.{place.starts}")

    def replace(self, place: Place) -> None:
        """Start another process at a place, and ask the one before to end."""
        with self._starting:
            if place.is_alive:
                place.running.send(signal.SIGTERM)
                self.start(place)

    def revive(self) -> None:
        """Start a process wherever there is none, as a manager of processes does."""
        with self._starting:
            for place in self.places:
                if not place.is_alive:
                    self.start(place)

    def _start(self, place: Place, name: str) -> Process:
        log = self.folder / f"{name}.log"
        port = place.proxy.port if place.proxy else self.server.port
        url = f"postgres://{USER}@{LOOPBACK}:{port}/postgres"
        with log.open("wb") as stream:
            popen = subprocess.Popen(
                [sys.executable, *(part.format(name=name) for part in place.command)],
                cwd=ROOT,
                env={**self.environment, "DATABASE_URL": url},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        return Process(popen, log)

    def stop(self, *names: str) -> None:
        """Ask the processes of some places to end, and wait until they have."""
        chosen = [place for place in self.places if place.name.startswith(names)]
        for place in chosen:
            place.running.send(signal.SIGTERM)
        for place in chosen:
            place.running.wait(PATIENCE)

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Return a connection that avoids the proxies.

        Raises:
            psycopg.OperationalError: the server is down.
        """
        return psycopg.connect(self.server.url(), autocommit=True, connect_timeout=10, **options)

    def survivors(self) -> list[int]:
        """Return the ids of processes that belong to the site and run, whoever started them."""
        mark = f"{VARIABLE}={self.ledger}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            # It may end while it is looked at.
            with suppress(OSError):
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def children(self) -> list[int]:
        """Return the ids of Python processes that the processes of the site have started."""
        others = set(self.survivors()) - {process.pid for process in self.processes()}
        return sorted(pid for pid in others if "python" in command_line(pid))

    def processes(self) -> Iterator[Process]:
        """Return every process there has been."""
        yield from self.ended
        for place in self.places:
            if place.process is not None:
                yield place.process


@contextmanager
def site(
    folder: Path,
    *,
    workers: int = 3,
    supervisors: int = 0,
    maintenance: int = 2,
    producer: Sequence[str] = (),
    has_network: bool = True,
    mutant: str = "",
) -> Iterator[Site]:
    """Make a site whose processes have not been started. Nothing of it is left at the end.

    Args:
        folder: for logs and the ledger.
        workers: how many processes, supervisors not counted.
        supervisors: how many, with two workers each.
        maintenance: how many.
        producer: arguments of tests.chaos.producer for two producers; none without.
            ``{name}`` stands for the name of the process.
        has_network: each process has a proxy.
        mutant: of every process, see tests.chaos.mutants.
    """
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer.ephemeral(settings=SERVER_SETTINGS))
        environment = {
            **os.environ,
            "DATABASE_URL": server.url(),
            "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
            "PYTHONUNBUFFERED": "1",
            "PGJOBS_CHAOS_MUTANT": mutant,
            VARIABLE: str(folder / "ledger"),
        }
        made = Site(server, folder, environment)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env=environment,
            check=True,
        )
        with made.connect() as connection:
            connection.execute(TABLES)
        commands = {
            "worker": (workers, ("-m", "django", "pgjobs_worker")),
            "worker_pair": (supervisors, ("-m", "django", "pgjobs_worker", "--processes", "2")),
            "maintenance": (maintenance, ("-m", "django", "pgjobs_maintain")),
            "producer": (2 if producer else 0, ("-m", "tests.chaos.producer", *producer)),
        }
        for name, (count, command) in commands.items():
            for number in range(count):
                proxy = stack.enter_context(Proxy(server.port)) if has_network else None
                made.places.append(Place(f"{name}{number}", command, proxy))
        try:
            yield made
        finally:
            for process in made.processes():
                if process.popen.poll() is None:
                    process.kill()
