"""A virtual environment for each queue, made from PyPI when first needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from .catalogue import Peer

HOME: Final = Path(__file__).resolve().parent.parent / ".venvs"

_PATIENCE_SECONDS: Final = 300


class Unavailable(Exception):
    """A queue cannot be installed or run here; the message says why."""


def newest_python() -> str:
    """Return the newest interpreter there is, this one if need be."""
    names = [f"python3.{minor}" for minor in range(14, sys.version_info.minor, -1)]
    return next(filter(None, map(shutil.which, names)), sys.executable)


def environment(peer: Peer, python: str) -> Path:
    """Return the interpreter of a queue's own environment, which is made if it is not there.

    Args:
        peer: the queue.
        python: the interpreter to make it with.

    Raises:
        Unavailable: pip does not install it.
    """
    directory = HOME / peer.name
    interpreter = directory / "bin" / "python"
    if not (directory / ".ready").exists():
        shutil.rmtree(directory, ignore_errors=True)
        # Without pip, which not every interpreter brings along; ours fills it.
        _run([python, "-m", "venv", "--without-pip", str(directory)])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        _run([*pip, "--python", str(interpreter), "install", *peer.requirements])
        (directory / ".ready").touch()
    return interpreter


def version(peer: Peer, interpreter: Path) -> str:
    """Return the installed version of a queue."""
    code = f"from importlib.metadata import version; print(version({peer.name!r}))"
    return _run([str(interpreter), "-c", code]).strip()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {_PATIENCE_SECONDS} s") from None
    if done.returncode != 0:
        raise Unavailable(reason(done.stderr))
    return done.stdout


def reason(errors: str) -> str:
    """Return the line of a program's errors that says the most."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = [line for line in lines if "Requires-Python" in line or "require a different" in line]
    if told:
        return "needs Python " + told[-1].rpartition("Requires-Python ")[2].split(";")[0]
    wrong = [line for line in lines if "rror" in line]
    return (wrong or lines or ["no reason given"])[-1][:120]
