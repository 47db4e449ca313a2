"""Say what became of an attempt: a line in the log, and two signals.

Called for each job, however short it is. The line is not made by a receiver of the signal, as
others are: the way through a signal takes as long as all else that is done around a small job.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from django.dispatch import Signal

from .. import signals
from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..definitions.retries import may_succeed
from ..states import Outcome
from .telling import atell, complaining, say, tell

logger = logging.getLogger("django_pgjobs.worker")

_EXPECTED: Final = frozenset(
    {Outcome.COMPLETED, Outcome.SNOOZED, Outcome.CANCELLED, Outcome.RELEASED}
)
_FAILURES: Final = frozenset({Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST})


@dataclass(slots=True)
class AttemptEnd:
    """What became of an attempt.

    Attributes:
        definition: of the job.
        context: of the attempt.
        outcome: of the attempt.
        error: what its handler raised, if it did.
        duration: seconds that the handler took.
    """

    definition: JobDefinition
    context: JobContext
    outcome: Outcome
    error: BaseException | None
    duration: float


def report(end: AttemptEnd) -> None:
    """Say what became of an attempt. Never raises."""
    _log(end)
    for signal, named in _signals(end):
        tell(signal, end.definition, **named)


async def areport(end: AttemptEnd) -> None:
    """As ``report``, in an event loop. Goes on where its task is cancelled: the outcome stands."""
    _log(end)
    for signal, named in _signals(end):
        with suppress(asyncio.CancelledError):
            await atell(signal, end.definition, **named)


def _signals(end: AttemptEnd) -> list[tuple[Signal, dict[str, Any]]]:
    """Return the signals that somebody receives, with what each says."""
    told: list[tuple[Signal, dict[str, Any]]] = []
    if end.error is None and not signals.job_finished.receivers:
        return told
    named = {
        "context": end.context,
        "outcome": end.outcome,
        "error": end.error,
        "duration": end.duration,
    }
    if signals.job_finished.receivers:
        told.append((signals.job_finished, named))
    if end.error is not None and end.outcome in _FAILURES and signals.job_failed.receivers:
        # The class of the error is the project's code, too.
        with complaining("Nobody was told of a failure: its error cannot be examined"):
            will_retry = _will_retry(end.definition, end.context, end.error)
            told.append((signals.job_failed, named | {"will_retry": will_retry}))
    return told


def _will_retry(definition: JobDefinition, context: JobContext, error: BaseException) -> bool:
    retry_on, discard_on = definition.retry_on, definition.discard_on
    is_retryable = may_succeed(error, retry_on=retry_on, discard_on=discard_on)
    return is_retryable and context.attempt < context.max_attempts


def _log(end: AttemptEnd) -> None:
    """Write the one line of an attempt; with its traceback when it failed. Never its payload."""
    level = logging.INFO if end.outcome in _EXPECTED else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    context = end.context
    say(
        level,
        "job %s: id=%s name=%s attempt=%s/%s queue=%s tenant=%s duration_ms=%.1f worker=%s",
        end.outcome.value,
        context.id,
        context.name,
        context.attempt,
        context.max_attempts,
        context.queue,
        context.tenant_id,
        end.duration * 1000,
        context.worker_id,
        exc_info=end.error if level == logging.WARNING else None,
        extra={
            "job_id": context.id,
            "job_name": context.name,
            "attempt": context.attempt,
            "queue": context.queue,
            "worker_id": context.worker_id,
            "outcome": end.outcome.value,
        },
    )
