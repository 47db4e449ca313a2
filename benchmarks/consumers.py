"""Several consumers at once, and what they report."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

from .consumer import Progress
from .processes import python, running


class Consumers:
    """Consumer processes that have begun.

    Attributes:
        began_at: when, on the monotonic clock.
        progress: everything they reported, in the order of arrival.
    """

    def __init__(self, children: list[subprocess.Popen[str]]) -> None:
        self.began_at = monotonic()
        self.progress: list[Progress] = []
        self._children = children
        self._threads = [
            threading.Thread(target=self._read, args=(child,), daemon=True) for child in children
        ]
        for thread in self._threads:
            thread.start()

    @property
    def jobs(self) -> int:
        """How many jobs are completed."""
        return sum(progress.jobs for progress in self.progress)

    @property
    def rate(self) -> float:
        """Jobs a second, until the last jobs were completed. Once they have stopped."""
        ends = [progress.at for progress in self.progress if progress.jobs]
        return self.jobs / (max(ends) - self.began_at) if ends else 0.0

    @property
    def are_alive(self) -> bool:
        """False when one of them has ended."""
        return all(child.poll() is None for child in self._children)

    def stop(self) -> None:
        """Have them end, and read the rest of what they report."""
        for child in self._children:
            assert child.stdin is not None
            child.stdin.close()
        for thread in self._threads:
            thread.join(timeout=30)

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            self.progress.append(Progress(**json.loads(line)))


@contextmanager
def consumers(count: int, *, batch: int, url: str) -> Iterator[Consumers]:
    """Start consumers together; they run until stopped, at the latest with the block.

    Args:
        count: of processes.
        batch: most jobs of one claim.
        url: of the database.
    """
    with ExitStack() as stack:
        command = python("-m", "benchmarks.consumer", str(batch))
        environment = {"DATABASE_URL": url}
        children = [
            stack.enter_context(running(command, environment=environment, output=subprocess.PIPE))
            for _ in range(count)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdin is not None
            assert child.stdout.readline() == "ready\n", "A consumer did not start."
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        yield Consumers(children)
