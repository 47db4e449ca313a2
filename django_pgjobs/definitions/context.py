"""What a handler may know about its attempt."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

from .progress import Progress
from .slots import ScheduledSlot, slot_of


@dataclass(slots=True, kw_only=True)
class JobContext:
    """One attempt, as its handler sees it.

    Pass ``(id, claims)`` to outside systems: ``id`` as their idempotency key, ``claims`` as
    a fence that grows with each attempt, so that they can refuse an older one.

    Attributes:
        id: of the job.
        name: of the job's definition.
        queue: where it was claimed.
        tenant_id: 0 for none.
        attempt: from 1; not counted are attempts that were given back.
        max_attempts: the job is dead when this many have failed.
        claims: every claim ever made of this job.
        payload_version: of the arguments, as they were enqueued.
        worker_id: of the worker that runs it.
        arguments: of the handler, by name; empty before they are decoded. What middleware changes
            in it is what the handler gets.
    """

    id: int
    name: str
    queue: str = "default"
    tenant_id: int = 0
    attempt: int = 1
    max_attempts: int = 1
    claims: int = 1
    payload_version: int = 1
    worker_id: str = ""
    # Left out of repr(): what is logged must not show it.
    arguments: dict[str, Any] = field(default_factory=dict, repr=False)
    _meta: str | None = field(default=None, repr=False)
    _deadline: float | None = None
    _is_cancelled: bool = False
    # One event for all attempts of a worker.
    _stopping: threading.Event | None = None
    _progress: Progress | None = None

    def progress(self, current: float, total: float | None = None, message: str = "") -> None:
        """Say how far the work has come, as often as you like: see the how-to on progress.

        It is kept with the job at the next heartbeat, for people to see. A job declared with
        ``progress_timeout`` keeps its lease only while ``current`` changes.

        Args:
            current: what is done, in any unit.
            total: what there is to do, or None if that is not known.
            message: a few words; cut at 200 characters.

        Raises:
            TypeError: something is of the wrong type.
            ValueError: a number is none, or beyond 10^15.
        """
        if self._progress is None:
            self._progress = Progress()
        self._progress.say(current, total, message)

    @property
    def slot(self) -> ScheduledSlot | None:
        """The slot for which a schedule enqueued the job; None for any other job."""
        return slot_of(self._meta)

    @property
    def is_cancelled(self) -> bool:
        """True when somebody asked to cancel the job, or its lease was lost.

        A handler that sees it should clean up and return; what it returns is not kept.
        """
        return self._is_cancelled

    @property
    def is_stopping(self) -> bool:
        """True when the worker has been told to stop; the job may finish until the deadline."""
        return self._stopping is not None and self._stopping.is_set()

    @property
    def time_left(self) -> timedelta | None:
        """Time until the job's timeout, negative when it has passed; None without one."""
        if self._deadline is None:
            return None
        return timedelta(seconds=self._deadline - monotonic())

    def begin(self, timeout: timedelta | None, progress_timeout: timedelta | None = None) -> None:
        """Start the clocks of the timeouts. For the worker."""
        if timeout is not None:
            self._deadline = monotonic() + timeout.total_seconds()
        if progress_timeout is not None:
            self._progress = Progress(progress_timeout.total_seconds())

    @property
    def last_progress(self) -> Progress | None:
        """What the handler has said about its progress. For the worker."""
        return self._progress

    def cancel(self) -> None:
        """Tell the handler that its work is not wanted any more. For the worker."""
        self._is_cancelled = True
