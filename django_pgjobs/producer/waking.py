"""Wake sleeping workers, and only them.

Polling is the truth: a worker that is not woken finds its jobs at its next look. NOTIFY
serialises all notifying commits of a database, so a producer notifies only when somebody
sleeps, and then only as many workers as have something to do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final

from ..conf import get_settings
from ..store.enqueue import NewJob, wake_workers

#: How long to believe that nobody sleeps. A worker goes on polling for longer than this after it
#: has said that it is idle (worker/idleness.py), so that it sees what was enqueued meanwhile.
BELIEVED_FOR: Final = 0.25


class AwakeWorkers:
    """Which queues had no sleeping worker when a producer last asked. Thread-safe."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def are_awake(self, alias: str, queue: str) -> bool:
        """Say whether nobody sleeps, as far as is known."""
        return monotonic() < self._until.get((alias, queue), 0.0)

    def note(self, alias: str, queue: str) -> None:
        """Nobody slept just now."""
        with self._lock:
            if len(self._until) > _QUEUES_AT_MOST:
                self._until.clear()
            self._until[alias, queue] = monotonic() + BELIEVED_FOR

    def forget(self) -> None:
        """Ask again at the next enqueue."""
        self._until.clear()


#: Entries of the cache; queues are few, unless somebody makes them up.
_QUEUES_AT_MOST: Final = 10_000

awake = AwakeWorkers()


def wake_for(connection: Any, jobs: Iterable[NewJob]) -> None:
    """Wake sleeping workers for jobs that were just written in the same transaction."""
    settings = get_settings()
    if settings.listen:
        interval = settings.poll_interval
        wake_queues(connection, Counter(job.queue for job in jobs if is_soon(job, interval)))


def wake_queues(connection: Any, wanted: Mapping[str, int]) -> None:
    """Wake sleeping workers for so many jobs of each queue, when the transaction commits."""
    settings = get_settings()
    if not settings.listen:
        return
    for queue, count in wanted.items():
        if awake.are_awake(settings.database, queue):
            continue
        workers = -(-count // settings.concurrency)
        note_woken(queue, wake_workers(connection, queue=queue, count=workers))


def should_wake_for(job: NewJob) -> bool:
    """Say whether a worker may sleep that should begin ``job``."""
    settings = get_settings()
    return (
        settings.listen
        and is_soon(job, settings.poll_interval)
        and not awake.are_awake(settings.database, job.queue)
    )


def note_woken(queue: str, channels: Sequence[str]) -> None:
    """Note what a look for sleeping workers has found."""
    if not channels:
        awake.note(get_settings().database, queue)


def is_soon(job: NewJob, poll_interval: timedelta) -> bool:
    """Say whether a sleeping worker could be late for the job.

    A delayed job wakes a worker so that it sleeps no longer than until then.
    """
    if job.scheduled_at is not None:
        # An instant on the server's clock: the worker sorts it out.
        return True
    return job.delay is None or job.delay <= poll_interval
