"""A private PgBouncer in transaction mode, for tests.

The program is the one on the path, or else Debian's package, unpacked beside the fetched servers
and not installed: nothing on the machine changes, and no service starts.

PgBouncer refuses to run as root. There it becomes ``nobody`` once it has read its files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from urllib.parse import urlsplit

from tools.machine import LOOPBACK, accepts_connections, free_port
from tools.postgres_binaries import account, home, is_root

#: PgBouncer and those of its libraries that a small Debian may lack.
PACKAGES: Final = ("pgbouncer", "libc-ares2", "libevent-2.1-7")
PATIENCE_SECONDS: Final = 30

DEFAULTS: Final[Mapping[str, str | int]] = {
    "pool_mode": "transaction",
    "auth_type": "any",
    "listen_addr": LOOPBACK,
    "unix_socket_dir": "",
    "max_client_conn": 500,
    "default_pool_size": 10,
    # Seconds: a client that waits for a server that never comes is told so.
    "query_wait_timeout": 30,
}


class PgBouncerError(Exception):
    """PgBouncer could not be found, fetched or started."""


class PgBouncer:
    """A pooler in front of one PostgreSQL server, while its context lasts.

    Args:
        url: address of a database of the server; any other database is pooled too.
        settings: lines of the configuration that differ from ``DEFAULTS``.
    """

    def __init__(self, url: str, *, settings: Mapping[str, str | int] | None = None) -> None:
        self._server = urlsplit(url)
        self._settings = {**DEFAULTS, **(settings or {})}
        self.port = free_port()

    def url(self, database: str) -> str:
        """Return the address of a database through the pooler."""
        return self._server._replace(
            netloc=f"{self._server.username}@{LOOPBACK}:{self.port}", path=f"/{database}"
        ).geturl()

    @contextmanager
    def running(self) -> Iterator[PgBouncer]:
        """Run the pooler; it goes at the end, and when this process is killed.

        Raises:
            PgBouncerError: it does not start, with its log.
        """
        with tempfile.TemporaryDirectory(prefix="pgjobs-") as directory:
            log = Path(directory) / "log"
            configuration = Path(directory) / "pgbouncer.ini"
            configuration.write_text(self._configuration())
            with log.open("wb") as stream, _watched(configuration, stream.fileno()) as watcher:
                self._wait_until_it_listens(watcher, log)
                yield self

    def _configuration(self) -> str:
        server = self._server
        user = {"user": account().pw_name} if is_root() else {}
        settings = {**self._settings, **user, "listen_port": self.port}
        return (
            "[databases]\n"
            f"* = host={server.hostname} port={server.port} user={server.username}\n"
            "[pgbouncer]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
        )

    def _wait_until_it_listens(self, watcher: subprocess.Popen[bytes], log: Path) -> None:
        deadline = monotonic() + PATIENCE_SECONDS
        while not accepts_connections(self.port):
            if watcher.poll() is not None or monotonic() > deadline:
                raise PgBouncerError(f"PgBouncer did not start:\n{log.read_text()}")
            sleep(0.02)


@contextmanager
def _watched(configuration: Path, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run PgBouncer under a shell that ends it when this process does."""
    program, environment = find_pgbouncer()
    # Reads end-of-file when the last writer is gone, which is this process.
    script = 'exec 3<&0; "$0" "$1" 3<&- & pid=$!; { cat <&3; kill $pid; } & wait $pid'
    watcher = subprocess.Popen(
        ["sh", "-c", script, program, str(configuration)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        # An interrupt from the keyboard must not reach it.
        start_new_session=True,
    )
    try:
        yield watcher
    finally:
        watcher.communicate()


def find_pgbouncer() -> tuple[str, dict[str, str]]:
    """Return the program and the environment it runs in, fetching it if need be.

    Raises:
        PgBouncerError: it cannot be fetched or does not run.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
    environment = {"PATH": path}
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        tree = _fetched()
        program = str(tree / "usr/sbin/pgbouncer")
        libraries = (str(path.parent) for path in tree.glob("usr/lib/*/libcares.so.2"))
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    done = subprocess.run(
        [program, "--version"], check=False, capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        raise PgBouncerError(f"{program} does not run on this machine:\n{done.stderr}")
    return program, environment


def _fetched() -> Path:
    target = home() / "pgbouncer"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "pgbouncer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    if shutil.which("apt-get") is None:
        raise PgBouncerError("There is no pgbouncer on the path. Install it.")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        if not _download(Path(work)):
            # A fresh machine has no list of packages.
            _run("apt-get", "update", "--quiet")
            if not _download(Path(work)):
                raise PgBouncerError(
                    f"The packages {', '.join(PACKAGES)} could not be fetched. Install pgbouncer."
                )
        tree = Path(work) / "tree"
        for package in Path(work).glob("*.deb"):
            _run("dpkg-deb", "--extract", str(package), str(tree))
        # One step, so that a fetch that is interrupted leaves nothing behind.
        tree.rename(target)


def _download(directory: Path) -> bool:
    command = ["apt-get", "download", "--quiet", "--option=APT::Sandbox::User=root", *PACKAGES]
    done = subprocess.run(command, check=False, capture_output=True, cwd=directory)
    return done.returncode == 0 and len(list(directory.glob("*.deb"))) == len(PACKAGES)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PgBouncerError(f"{' '.join(command)} failed:\n{done.stderr}")
