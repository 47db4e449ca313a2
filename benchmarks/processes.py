"""Child processes that end, each by its own process id."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent

#: Seconds a child gets to end by itself.
_GRACE: Final = 20


@contextmanager
def running(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[str] | int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a program as long as the block lasts, then end it.

    Args:
        command: the program and its arguments.
        environment: added to that of this process.
        output: where its output and errors go; by default where ours go.
    """
    child = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=None if output == subprocess.PIPE else output,
        text=True,
        bufsize=1,
    )
    try:
        yield child
    finally:
        _end(child)


def python(*arguments: str) -> list[str]:
    """Return a command of this process's own interpreter."""
    return [sys.executable, *arguments]


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(_GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()
