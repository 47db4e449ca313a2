"""Programs in which a thread cannot be started.

    python -m tests.worker.threadless PROGRAM

In a process of their own: on Python 3.11 a thread that could not be started leaves something
behind under the identity of whoever tried. A timeout of that thread goes there and is lost, until
its handler is written off, and so would be the timeouts of later tests.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from random import Random

import django
import pytest

#: Bytes for which the kernel has no room, so that no thread can be started.
MORE_THAN_THERE_IS = 1 << 46


@contextmanager
def no_threads() -> Iterator[None]:
    """Have every start of a thread fail."""
    usual = threading.stack_size(MORE_THAN_THERE_IS)
    try:
        yield
    finally:
        threading.stack_size(usual)


def pool() -> None:
    """A place of the pool of processes has no thread."""
    from tests.acceptance.jobs import grow
    from tests.worker.test_processes import attempt_of, make_pool

    pool = make_pool(lambda attempt, outcome: None)
    with pytest.raises(RuntimeError, match="thread"), no_threads():
        pool.submit([attempt_of(grow, '{"size":1}')])
    assert len(pool.take_back()) == 1
    pool.stop()
    assert not pool.is_busy


def supervisor() -> None:
    """At first there is no thread to wait for the end of a worker."""
    from django_pgjobs.worker.supervisor import Supervisor

    started = []
    has_another = threading.Event()
    usual = threading.stack_size()

    def start(number: int, lifeline: int) -> subprocess.Popen[bytes]:
        program = f"cat /dev/fd/{lifeline} >/dev/null; exit 0"
        started.append(subprocess.Popen(["/bin/sh", "-c", program], pass_fds=[lifeline]))
        threading.stack_size(MORE_THAN_THERE_IS if len(started) == 1 else usual)
        if len(started) == 2:
            has_another.set()
        return started[-1]

    supervisor = Supervisor(1, start=start, patience=timedelta(seconds=60), random=Random(1))
    with ThreadPoolExecutor(1) as executor:
        result = executor.submit(supervisor.run)
        assert has_another.wait(60)
        assert started[0].returncode == -signal.SIGKILL
        supervisor.stop(signal.SIGTERM)
        assert result.result(60) == 0


if __name__ == "__main__":
    django.setup()
    {"pool": pool, "supervisor": supervisor}[sys.argv[1]]()
