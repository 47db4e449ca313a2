"""Say what became of an attempt: a line in the log, and two signals.

Called for each job, however short it is. The line is not made by a receiver of the signal, as
others are: the way through a signal takes as long as all else that is done around a small job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from django.dispatch import Signal

from .. import signals
from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..definitions.retries import may_succeed
from ..states import Outcome
from .telling import atell, say, tell

logger = logging.getLogger("django_pgjobs.worker")

_EXPECTED: Final = frozenset(
    {Outcome.COMPLETED, Outcome.SNOOZED, Outcome.CANCELLED, Outcome.RELEASED}
)
_FAILURES: Final = frozenset({Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST})


def report(
    definition: JobDefinition,
    context: JobContext,
    outcome: Outcome,
    error: BaseException | None,
    duration: float,
) -> None:
    """Say what became of an attempt. Never raises.

    Args:
        definition: of the job.
        context: of the attempt.
        outcome: of the attempt.
        error: what its handler raised, if it did.
        duration: seconds that the handler took.
    """
    _log(context, outcome, error, duration)
    if error is None and not signals.job_finished.receivers:
        return
    for signal, named in _signals(definition, context, outcome, error, duration):
        tell(signal, definition, **named)


async def areport(
    definition: JobDefinition,
    context: JobContext,
    outcome: Outcome,
    error: BaseException | None,
    duration: float,
) -> None:
    """As ``report``, in an event loop. Goes on where its task is cancelled: the outcome stands."""
    _log(context, outcome, error, duration)
    if error is None and not signals.job_finished.receivers:
        return
    for signal, named in _signals(definition, context, outcome, error, duration):
        with suppress(asyncio.CancelledError):
            await atell(signal, definition, **named)


def _signals(
    definition: JobDefinition,
    context: JobContext,
    outcome: Outcome,
    error: BaseException | None,
    duration: float,
) -> Iterator[tuple[Signal, dict[str, Any]]]:
    """Yield each signal that somebody receives, with what it says."""
    named = {"context": context, "outcome": outcome, "error": error, "duration": duration}
    if signals.job_finished.receivers:
        yield signals.job_finished, named
    if error is not None and outcome in _FAILURES and signals.job_failed.receivers:
        retry_on, discard_on = definition.retry_on, definition.discard_on
        is_retryable = may_succeed(error, retry_on=retry_on, discard_on=discard_on)
        will_retry = is_retryable and context.attempt < context.max_attempts
        yield signals.job_failed, named | {"will_retry": will_retry}


def _log(
    context: JobContext, outcome: Outcome, error: BaseException | None, duration: float
) -> None:
    """Write the one line of an attempt; with its traceback when it failed. Never its payload."""
    level = logging.INFO if outcome in _EXPECTED else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    say(
        level,
        "job %s: id=%s name=%s attempt=%s/%s queue=%s tenant=%s duration_ms=%.1f worker=%s",
        outcome.value,
        context.id,
        context.name,
        context.attempt,
        context.max_attempts,
        context.queue,
        context.tenant_id,
        duration * 1000,
        context.worker_id,
        exc_info=error if level == logging.WARNING else None,
        extra={
            "job_id": context.id,
            "job_name": context.name,
            "attempt": context.attempt,
            "queue": context.queue,
            "worker_id": context.worker_id,
            "outcome": outcome.value,
        },
    )
