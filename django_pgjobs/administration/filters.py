"""Which jobs an act concerns, when they are too many to name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from ..definitions.definition import is_text
from ..exceptions import OperationError
from ..states import FINAL, JobStatus
from ..store.administer import (
    FoundJobs,
    find_unfinished_jobs,
    find_unsuccessful_jobs,
    read_last_id,
)
from ..store.execute import Executor, JobId

#: Rows that one statement looks at.
EXAMINED_AT_MOST: Final = 10_000

_BIGINT: Final = range(-(2**63), 2**63)
_LONGEST_TEXT: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedFilter:
    """Unfinished jobs that match all that is given.

    Attributes:
        job: name of the definition.
        queue: name.
        tenant: 0 for jobs without one.
        status: such as ``pending``.
        since: enqueued at or after; an aware datetime.
        until: enqueued before.

    Raises:
        OperationError: a value makes no sense.
    """

    job: str | None = None
    queue: str | None = None
    tenant: int | None = None
    status: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        _check(self, {status.value for status in JobStatus if status not in FINAL} | {None})

    def find(self, connection: Executor, *, after_id: int, until_id: int) -> FoundJobs:
        """Look through the next part of the unfinished jobs."""
        return find_unfinished_jobs(
            connection,
            after_id=after_id,
            until_id=until_id,
            limit=EXAMINED_AT_MOST,
            job_name=self.job,
            queue=self.queue,
            tenant_id=self.tenant,
            status=None if self.status is None else JobStatus(self.status),
            since=self.since,
            until=self.until,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsuccessfulFilter:
    """Dead or cancelled jobs that match all that is given.

    Attributes:
        status: ``dead`` or ``cancelled``.
        job: name of the definition.
        queue: name.
        tenant: 0 for jobs without one.
        fingerprint: of the error that a job died of.
        since: finished at or after; an aware datetime.
        until: finished before.

    Raises:
        OperationError: a value makes no sense.
    """

    status: str = JobStatus.DEAD.value
    job: str | None = None
    queue: str | None = None
    tenant: int | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        _check(self, {JobStatus.DEAD.value, JobStatus.CANCELLED.value})
        _check_text("fingerprint", self.fingerprint)

    def find(self, connection: Executor, *, after_id: int, until_id: int) -> FoundJobs:
        """Look through the next part of the dead or cancelled jobs."""
        return find_unsuccessful_jobs(
            connection,
            after_id=after_id,
            until_id=until_id,
            limit=EXAMINED_AT_MOST,
            status=JobStatus(self.status),
            job_name=self.job,
            queue=self.queue,
            tenant_id=self.tenant,
            fingerprint=self.fingerprint,
            since=self.since,
            until=self.until,
        )


def matching(
    connection: Executor, wanted: UnfinishedFilter | UnsuccessfulFilter
) -> Iterator[list[JobId]]:
    """Yield the ids of the jobs that match, ascending, part by part.

    Each id once, and none of a job enqueued after the beginning: so it ends, also when what
    it finds is redriven, fails again and matches again. A part may be empty.
    """
    until_id = read_last_id(connection)
    last_id: int | None = 0
    while last_id is not None:
        found = wanted.find(connection, after_id=last_id, until_id=until_id)
        yield found.ids
        last_id = found.last_id if found.examined >= EXAMINED_AT_MOST else None


def _check(wanted: Any, statuses: set[Any]) -> None:
    _check_text("job", wanted.job)
    _check_text("queue", wanted.queue)
    if wanted.tenant is not None and (
        type(wanted.tenant) is not int or wanted.tenant not in _BIGINT
    ):
        raise OperationError(f"tenant must be a whole number, not {wanted.tenant!r}.")
    if wanted.status not in statuses:
        known = ", ".join(sorted(status for status in statuses if status))
        raise OperationError(f"status must be one of {known}, not {wanted.status!r}.")
    for name in ("since", "until"):
        instant = getattr(wanted, name)
        if instant is not None and not (
            isinstance(instant, datetime) and timezone.is_aware(instant)
        ):
            raise OperationError(f"{name} must be an aware datetime, not {instant!r}.")


def _check_text(name: str, value: object) -> None:
    if value is not None and not is_text(value, _LONGEST_TEXT):
        raise OperationError(f"{name} must be text of 1 to {_LONGEST_TEXT} bytes, not {value!r}.")
