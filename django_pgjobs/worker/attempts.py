"""The attempts that a worker has in hand."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from ..definitions.context import JobContext
from ..store.claim import ClaimedJob
from ..store.execute import FenceToken, JobId


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed job on its way through the worker.

    Attributes:
        job: as it was claimed.
        context: what the handler sees.
        is_lost: the lease is lost; whatever the handler does will be refused.
        has_ended: an outcome has been submitted; only the first one counts.
    """

    job: ClaimedJob
    context: JobContext
    is_lost: bool = False
    has_ended: bool = False

    @property
    def key(self) -> tuple[JobId, FenceToken]:
        """What every statement about this attempt is fenced by."""
        return self.job.id, self.job.fence_token


class AttemptsInHand:
    """Every attempt from its claim until its outcome is written. Thread-safe.

    Keyed by fence token: after a lost lease the same job may be claimed again by this
    very worker while the first handler still runs.
    """

    def __init__(self) -> None:
        self._attempts: dict[FenceToken, Attempt] = {}
        self._changed = threading.Condition()

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Take attempts in hand."""
        with self._changed:
            for attempt in attempts:
                self._attempts[attempt.job.fence_token] = attempt

    def remove(self, attempts: Iterable[Attempt]) -> None:
        """Let go of attempts whose outcome is written or refused."""
        with self._changed:
            for attempt in attempts:
                self._attempts.pop(attempt.job.fence_token, None)
            self._changed.notify_all()

    def all(self) -> list[Attempt]:
        """Return the attempts in hand."""
        with self._changed:
            return list(self._attempts.values())

    def wait_below(self, count: int, *, timeout: float) -> bool:
        """Wait until fewer than ``count`` are in hand; say whether that is so.

        Args:
            count: at least 1.
            timeout: seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: len(self._attempts) < count, timeout)

    def __len__(self) -> int:
        return len(self._attempts)
