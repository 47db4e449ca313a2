"""The attempts that a worker has in hand."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..definitions.context import JobContext
from ..store.claim import ClaimedJob
from ..store.execute import FenceToken, JobId, WorkerId
from .capacity import Load

#: A job that was in flight in so many lost processes is a suspect; see reap_leases.sql.
SUSPECT_AFTER: Final = 2


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed job on its way through the worker.

    Attributes:
        job: as it was claimed.
        context: what the handler sees.
        pool: name of the pool that runs it.
        is_lost: the lease is lost; whatever the handler does will be refused.
        has_ended: an outcome has been submitted; only the first one counts.
    """

    job: ClaimedJob
    context: JobContext
    pool: str
    is_lost: bool = False
    has_ended: bool = False

    @property
    def key(self) -> tuple[JobId, FenceToken]:
        """What every statement about this attempt is fenced by."""
        return self.job.id, self.job.fence_token

    @property
    def is_alone(self) -> bool:
        """True for a suspect: the pool of processes runs it in a fresh one that then ends."""
        return self.job.losses >= SUSPECT_AFTER


def context_of(job: ClaimedJob, worker_id: WorkerId, stopping: threading.Event) -> JobContext:
    """Return what the handler of a claimed job sees.

    Args:
        job: as it was claimed.
        worker_id: of the worker.
        stopping: set when the worker has been told to stop.
    """
    return JobContext(
        id=job.id,
        name=job.job_name,
        queue=job.queue_name,
        tenant_id=job.tenant_id,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        claims=job.claims,
        payload_version=job.payload_version,
        worker_id=worker_id,
        _meta=job.meta,
        _stopping=stopping,
    )


class AttemptsInHand:
    """Every attempt from its claim until its outcome is written. Thread-safe.

    Keyed by fence token: after a lost lease the same job may be claimed again by this
    very worker while the first handler still runs.

    Args:
        loads: of the pools, by name; what they have in hand is counted here.
    """

    def __init__(self, loads: Mapping[str, Load]) -> None:
        self._attempts: dict[FenceToken, Attempt] = {}
        self._loads = loads
        self._changed = threading.Condition()
        self._is_woken = False

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Take attempts in hand."""
        with self._changed:
            for attempt in attempts:
                self._attempts[attempt.job.fence_token] = attempt
            for pool, jobs in _counts(attempts):
                self._loads[pool].add(jobs)

    def remove(self, attempts: Iterable[Attempt]) -> None:
        """Let go of attempts whose outcome is written or refused."""
        with self._changed:
            gone = [
                attempt
                for attempt in attempts
                if self._attempts.pop(attempt.job.fence_token, None) is not None
            ]
            for pool, jobs in _counts(gone):
                self._loads[pool].remove(jobs)
            self._changed.notify_all()

    def all(self) -> list[Attempt]:
        """Return the attempts in hand."""
        with self._changed:
            return list(self._attempts.values())

    def tokens(self) -> list[FenceToken]:
        """Return the fence tokens of the attempts in hand."""
        with self._changed:
            return list(self._attempts)

    def wake(self) -> None:
        """End a wait that ``wait_for`` is in, or will be in next."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], *, timeout: float) -> bool:
        """Wait until ``condition`` holds or somebody calls ``wake``; say whether it holds.

        Args:
            condition: looked at whenever attempts were let go of.
            timeout: seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or condition(), timeout)
            self._is_woken = False
            return condition()

    def wait_until_none(self, *, timeout: float) -> bool:
        """Wait until nothing is in hand; say whether that is so.

        Args:
            timeout: seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._attempts, timeout)

    def __len__(self) -> int:
        return len(self._attempts)


def _counts(attempts: Iterable[Attempt]) -> ItemsView[str, int]:
    return Counter(attempt.pool for attempt in attempts).items()
