"""How an attempt ends, decided from what its handler raised."""

from __future__ import annotations

import traceback
from dataclasses import replace
from datetime import timedelta

from ..conf import LONGEST_DURATION
from ..definitions.definition import JobDefinition
from ..definitions.errors import (
    MAX_TRACEBACK,
    class_path,
    fingerprint_of,
    message_of,
    storable,
    traceback_of,
)
from ..definitions.retries import Backoff, chosen_delay, may_succeed
from ..exceptions import JobTimeout, PoisonPill, ProcessDied
from ..outcomes import Cancel, Retry, Snooze
from ..states import Outcome
from ..store.finish import Ending
from .attempts import Attempt


def classify(definition: JobDefinition, attempt: Attempt, error: BaseException) -> Ending:
    """Return how an attempt ends whose handler raised ``error``. Never raises.

    The class of an exception is the project's code, too. If that fails, the attempt has failed
    like any other: it must neither end the worker nor come back for ever.
    """
    try:
        return _classify(definition, attempt, error)
    except BaseException as failure:
        return _unexaminable(attempt, failure)


def _classify(definition: JobDefinition, attempt: Attempt, error: BaseException) -> Ending:
    job_id, fence_token = attempt.key
    match error:
        case Snooze():
            return Ending(
                id=job_id,
                fence_token=fence_token,
                outcome=Outcome.SNOOZED,
                delay=_checked(error.delay),
            )
        case Cancel():
            return Ending(
                id=job_id,
                fence_token=fence_token,
                outcome=Outcome.CANCELLED,
                error_class=class_path(error),
                error_message=message_of(error),
            )
    backoff = definition.backoff if isinstance(definition.backoff, Backoff) else None
    return Ending(
        id=job_id,
        fence_token=fence_token,
        outcome=Outcome.TIMEOUT if isinstance(error, JobTimeout) else Outcome.FAILED,
        is_retryable=may_succeed(
            error, retry_on=definition.retry_on, discard_on=definition.discard_on
        ),
        delay=_delay(definition, attempt, error),
        backoff_base=backoff.base if backoff else None,
        backoff_cap=backoff.cap if backoff else None,
        error_class=class_path(error),
        error_message=message_of(error),
        traceback=traceback_of(error),
        fingerprint=fingerprint_of(error),
    )


def _delay(definition: JobDefinition, attempt: Attempt, error: BaseException) -> timedelta | None:
    if isinstance(error, Retry) and error.delay is not None:
        return _checked(error.delay)
    return chosen_delay(definition.backoff, attempt.job.attempt, error)


def _checked(delay: timedelta) -> timedelta:
    """Return a delay that a subclass may have set without our checks.

    Raises:
        TypeError: it is no duration.
    """
    if not isinstance(delay, timedelta):
        raise TypeError(f"delay must be a timedelta, not {delay!r}.")
    return min(max(delay, timedelta(0)), LONGEST_DURATION)


def _unexaminable(attempt: Attempt, failure: BaseException) -> Ending:
    """Return the ending of an attempt whose error cannot be examined: that raises ``failure``."""
    job_id, fence_token = attempt.key
    # Not by name: a class may have put anything there.
    frames = vars(BaseException)["__traceback__"].__get__(failure)
    return Ending(
        id=job_id,
        fence_token=fence_token,
        outcome=Outcome.FAILED,
        error_class=class_path(failure),
        error_message=f"What the handler raised cannot be examined: {message_of(failure)}",
        traceback=storable("".join(traceback.format_tb(frames)), MAX_TRACEBACK),
    )


def released(attempt: Attempt, *, delay: timedelta = timedelta(0)) -> Ending:
    """Return the ending of an attempt that is given back, not counted."""
    job_id, fence_token = attempt.key
    return Ending(id=job_id, fence_token=fence_token, outcome=Outcome.RELEASED, delay=delay)


def overdue(
    definition: JobDefinition,
    attempt: Attempt,
    stack: str,
    *,
    what: str = "went on after its timeout",
) -> Ending:
    """Return the ending of an attempt whose handler was given up, because it did not end.

    Args:
        definition: of the job.
        attempt: whose thread or task was written off.
        stack: where it was then.
        what: the handler did.
    """
    error = JobTimeout(
        f"The handler {what} and was written off: it may still run. Look at the traceback for "
        "what does not let it be interrupted."
    )
    return replace(classify(definition, attempt, error), traceback=storable(stack, MAX_TRACEBACK))


def killed_at_timeout(
    definition: JobDefinition, attempt: Attempt, error: JobTimeout, stack: str
) -> Ending:
    """Return the ending of an attempt whose process was killed after its timeout.

    Args:
        definition: of the job.
        attempt: that ran in it.
        error: what is said of it.
        stack: where it was then.
    """
    return replace(
        classify(definition, attempt, error),
        traceback=storable(stack, MAX_TRACEBACK) if stack else None,
    )


def stopped(attempt: Attempt, error: ProcessDied) -> Ending:
    """Return the ending of an attempt that was not wanted any more and went on.

    It does not count: the job has not killed its process. What has been cancelled is cancelled,
    and what is lost refused, whatever ending is given.

    Args:
        attempt: that ran in the process.
        error: how that ended.
    """
    return replace(
        released(attempt), error_class=class_path(error), error_message=message_of(error)
    )


def lost(
    definition: JobDefinition | None, attempt: Attempt, error: ProcessDied, stack: str
) -> Ending:
    """Return the ending of an attempt whose process died. It counts, and is tried again.

    A suspect that has killed its process is buried.

    Args:
        definition: of the job; None if this process knows none.
        attempt: that ran in it.
        error: how it died.
        stack: where it was then, as far as it could say so.
    """
    job_id, fence_token = attempt.key
    ending = (
        classify(definition, attempt, error)
        if definition is not None
        else Ending(id=job_id, fence_token=fence_token, outcome=Outcome.LOST)
    )
    ending = replace(
        ending,
        outcome=Outcome.LOST,
        traceback=storable(stack, MAX_TRACEBACK) if stack else None,
    )
    if not attempt.is_alone:
        return ending
    pill = PoisonPill(
        f"A poison pill: it has killed a third process, in which it ran alone. {error}"
    )
    return replace(
        ending, is_retryable=False, error_class=class_path(pill), error_message=message_of(pill)
    )
