"""What an operator may do, each act behind its own permission.

The one seam for every screen and command: permission, then act. An ``actor`` is a user of
Django; None stands for code that already runs with the project's own rights, such as
a management command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

from django.db import connections, transaction
from django.db.models.functions import Now

from ..conf import get_settings
from ..definitions.definition import queue_problems
from ..definitions.registry import registry
from ..exceptions import OperationError
from ..models import QueueConfig
from ..producer.waking import wake_queues
from ..states import JobStatus
from ..store.administer import CancelledJob, cancel_jobs, redrive_jobs
from ..store.breakers import change_breaker, declare_breakers
from ..store.execute import JobId
from .actors import name_of, require
from .filters import UnfinishedFilter, UnsuccessfulFilter, matching

CANCEL_JOB: Final = "django_pgjobs.cancel_job"
REDRIVE_JOB: Final = "django_pgjobs.redrive_job"
PAUSE_QUEUE: Final = "django_pgjobs.pause_queue"
MANAGE_BREAKER: Final = "django_pgjobs.manage_breaker"

_IDS: Final = range(1, 2**63)

#: Jobs of one statement.
BATCH: Final = 1_000

#: How often to ask again for jobs whose row somebody else had locked.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of a request to cancel.

    Attributes:
        cancelled: jobs that are cancelled.
        requested: running jobs whose workers have been asked to stop.
        skipped: jobs that were finished, do not exist, or were busy all the time.
    """

    cancelled: list[JobId]
    requested: list[JobId]
    skipped: list[JobId]

    @classmethod
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Return what became of all parts."""
        total = cls([], [], [])
        for part in parts:
            total.cancelled.extend(part.cancelled)
            total.requested.extend(part.requested)
            total.skipped.extend(part.skipped)
        return total


@dataclass(frozen=True, slots=True)
class Redrive:
    """What became of a request to redrive.

    Attributes:
        redriven: jobs that are pending again.
        conflicting: jobs whose idempotency key an unfinished job holds; they stay as they are.
        skipped: jobs that are neither dead nor cancelled, or do not exist.
    """

    redriven: list[JobId]
    conflicting: list[JobId]
    skipped: list[JobId]

    @classmethod
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Return what became of all parts."""
        total = cls([], [], [])
        for part in parts:
            total.redriven.extend(part.redriven)
            total.conflicting.extend(part.conflicting)
            total.skipped.extend(part.skipped)
        return total


def cancel(actor: Any, ids: Iterable[int], *, reason: str = "") -> Cancellation:
    """Cancel unfinished jobs.

    Args:
        actor: a user, or None.
        ids: of the jobs.
        reason: kept with the job.

    Raises:
        PermissionRequired: the actor may not cancel jobs.
        OperationError: that is no id of a job.
    """
    require(actor, CANCEL_JOB)
    wanted = _wanted(ids)
    text = _told_by(actor, reason)
    answers: dict[JobId, CancelledJob] = {}
    for _ in range(_TRIES):
        missing = [job_id for job_id in wanted if job_id not in answers]
        found = cancel_jobs(_connection(), missing, reason=text) if missing else []
        answers |= {job.id: job for job in found}
        if not found:
            break
    return Cancellation(
        cancelled=[i for i in answers if answers[i].status != JobStatus.RUNNING],
        requested=[i for i in answers if answers[i].status == JobStatus.RUNNING],
        skipped=[job_id for job_id in wanted if job_id not in answers],
    )


def redrive(actor: Any, ids: Iterable[int]) -> Redrive:
    """Make dead and cancelled jobs pending again, with all their attempts.

    Raises:
        PermissionRequired: the actor may not redrive jobs.
        OperationError: that is no id of a job.
    """
    require(actor, REDRIVE_JOB)
    wanted = _wanted(ids)
    with transaction.atomic(using=_alias()):
        found = redrive_jobs(_connection(), wanted)
        redriven = [job for job in found if job.is_redriven]
        wake_queues(_connection(), Counter(job.queue_name for job in redriven))
    answered = {job.id for job in found}
    return Redrive(
        redriven=[job.id for job in redriven],
        conflicting=[job.id for job in found if not job.is_redriven],
        skipped=[job_id for job_id in wanted if job_id not in answered],
    )


def cancel_matching(
    actor: Any, wanted: UnfinishedFilter, *, reason: str = ""
) -> Iterator[Cancellation]:
    """Cancel the unfinished jobs that match, some at a time, as the caller iterates.

    Jobs enqueued after the beginning are left alone.

    Yields:
        What became of each part; their :meth:`Cancellation.sum` is what became of all.

    Raises:
        PermissionRequired: the actor may not cancel jobs.
    """
    require(actor, CANCEL_JOB)
    return (
        cancel(actor, part, reason=reason)
        for ids in matching(_connection(), wanted)
        for part in batched(ids, BATCH)
    )


def redrive_matching(
    actor: Any, wanted: UnsuccessfulFilter, *, batch_size: int | None = None
) -> Iterator[Redrive]:
    """Redrive the dead or cancelled jobs that match, some at a time, as the caller iterates.

    A job that fails again meanwhile is not redriven twice.

    Args:
        actor: a user, or None.
        wanted: which jobs.
        batch_size: jobs of one part, at most and unless given BATCH.

    Yields:
        What became of each part; their :meth:`Redrive.sum` is what became of all.

    Raises:
        PermissionRequired: the actor may not redrive jobs.
    """
    require(actor, REDRIVE_JOB)
    return (
        redrive(actor, part)
        for ids in matching(_connection(), wanted)
        for part in batched(ids, batch_size or BATCH)
    )


def count_matching(wanted: UnfinishedFilter | UnsuccessfulFilter) -> int:
    """Return how many jobs match just now."""
    return sum(len(ids) for ids in matching(_connection(), wanted))


def open_breaker(actor: Any, name: str, *, reason: str = "") -> None:
    """Open a breaker by hand: none of its jobs is claimed until somebody closes it.

    Raises:
        PermissionRequired: the actor may not open breakers.
        OperationError: no job declares such a breaker.
    """
    require(actor, MANAGE_BREAKER)
    _change_breaker(actor, name, "open", f"Opened by {name_of(actor)}", reason)


def close_breaker(actor: Any, name: str, *, reason: str = "") -> None:
    """Close a breaker by hand. Maintenance makes pending again what it holds.

    Raises:
        PermissionRequired: the actor may not close breakers.
        OperationError: no job declares such a breaker.
    """
    require(actor, MANAGE_BREAKER)
    _change_breaker(actor, name, "closed", f"Closed by {name_of(actor)}", reason)


def _change_breaker(actor: Any, name: str, state: str, act: str, reason: str) -> None:
    # No worker that knows the breaker need have run yet.
    declare_breakers(_connection(), registry.breakers())
    is_changed = change_breaker(
        _connection(),
        name=name,
        from_states=["closed", "open", "half_open"],
        state=state,
        reason=act + (f": {reason}" if reason else "."),
        changed_by=name_of(actor),
    )
    if not is_changed:
        raise OperationError(f"There is no breaker {name!r}: no job declares one of that name.")


def batched(ids: list[JobId], size: int) -> Iterator[list[JobId]]:
    """Yield ``ids`` in parts of at most ``size``."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def pause(actor: Any, queue_name: str) -> bool:
    """Stop claims of a queue; running jobs go on. Return False if it was paused before.

    Raises:
        PermissionRequired: the actor may not pause queues.
        OperationError: that is no name of a queue.
    """
    require(actor, PAUSE_QUEUE)
    for problem in queue_problems(queue_name):
        raise OperationError(problem)
    with transaction.atomic(using=_alias()):
        queue, _ = (
            QueueConfig.objects.using(_alias())
            .select_for_update()
            .get_or_create(queue_name=queue_name)
        )
        if queue.paused:
            return False
        QueueConfig.objects.using(_alias()).filter(pk=queue_name).update(
            paused=True, paused_at=Now(), paused_by=name_of(actor)
        )
    return True


def resume(actor: Any, queue_name: str) -> bool:
    """Allow claims of a queue again. Return False if it was not paused.

    Raises:
        PermissionRequired: the actor may not resume queues.
    """
    require(actor, PAUSE_QUEUE)
    paused = QueueConfig.objects.using(_alias()).filter(pk=queue_name, paused=True)
    return paused.update(paused=False, paused_at=None, paused_by="") > 0


def _wanted(ids: Iterable[int]) -> list[JobId]:
    wanted = list(dict.fromkeys(ids))
    for job_id in wanted:
        if type(job_id) is not int or job_id not in _IDS:
            raise OperationError(f"The id of a job is a whole number above zero, not {job_id!r}.")
    return [JobId(job_id) for job_id in wanted]


def _told_by(actor: Any, reason: str) -> str:
    return f"Cancelled by {name_of(actor)}" + (f": {reason}" if reason else ".")


def _alias() -> str:
    return get_settings().database


def _connection() -> Any:
    return connections[_alias()]
