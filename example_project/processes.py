"""The processes of the shop, each a command of ``manage.py``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from tools.machine import LOOPBACK, free_port, is_free

MANAGE: Final = Path(__file__).parent / "manage.py"


@contextmanager
def command(*arguments: str, log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of ``manage.py`` in a process; at the end stop it and wait for it.

    Args:
        arguments: of ``manage.py``.
        log: where its output goes; None for the terminal.
    """
    output = log.open("ab") if log else None
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        # Ctrl-C reaches this process, which then stops the others in order.
        start_new_session=True,
    )
    if output:
        output.close()
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> int:
    """Ask a process to stop, make it stop if it does not, and return its status."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def website(log: Path | None = None, *, port: int | None = None) -> Iterator[str]:
    """Run the shop's web server in a process, and yield its address once it answers.

    Args:
        log: where its output goes; None for the terminal.
        port: where it listens if that is free; otherwise, or when None, on another.

    Raises:
        ChildProcessError: it did not start.
    """
    port = port if port and is_free(port) else free_port()
    url = f"http://{LOOPBACK}:{port}"
    with command("runserver", "--noreload", f"{LOOPBACK}:{port}", log=log) as process:
        wait_until(lambda: _answers(url, process), "the web server answers", seconds=30)
        yield url


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise ChildProcessError(f"The web server ended with status {process.returncode}.")
    try:
        with urlopen(url, timeout=5) as response:  # noqa: S310 - its own address
            return bool(response.status == 200)
    except URLError:
        return False


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it does not hold in time.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"Waited {seconds:.0f} seconds in vain until {what}.")
        time.sleep(0.1)


def stop_on_terminate() -> None:
    """Make signals end this process as Ctrl-C does, so that it stops what it started.

    Once in half a second: timeout(1) sends its signal to this process and then to its group, and
    the second one must not disturb the stopping.
    """
    last = -inf

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last >= 0.5:
            last = time.monotonic()
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    # A shell that starts a command in the background has it ignore SIGINT.
    signal.signal(signal.SIGINT, interrupt)


def use(database_url: str, smtp_port: int) -> None:
    """Point this process, and those it starts, at a database and a mail server."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["DATABASE_URL"] = database_url
    os.environ["EMAIL_PORT"] = str(smtp_port)
