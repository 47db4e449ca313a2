"""How an attempt ends, decided from what its handler raised."""

from __future__ import annotations

from datetime import timedelta

from ..definitions.errors import (
    MAX_TRACEBACK,
    class_path,
    fingerprint_of,
    message_of,
    storable,
    traceback_of,
)
from ..exceptions import JobTimeout, UndecodablePayload
from ..outcomes import Cancel, Retry, Snooze
from ..states import Outcome
from ..store.finish import Ending
from .attempts import Attempt


def classify(attempt: Attempt, error: Exception) -> Ending:
    """Return how an attempt ends whose handler raised ``error``."""
    job_id, fence_token = attempt.key
    match error:
        case Snooze():
            return Ending(
                id=job_id, fence_token=fence_token, outcome=Outcome.SNOOZED, delay=error.delay
            )
        case Cancel():
            return Ending(
                id=job_id,
                fence_token=fence_token,
                outcome=Outcome.CANCELLED,
                error_class=class_path(error),
                error_message=message_of(error),
            )
    return Ending(
        id=job_id,
        fence_token=fence_token,
        outcome=Outcome.TIMEOUT if isinstance(error, JobTimeout) else Outcome.FAILED,
        # What cannot be decoded now never will be.
        is_retryable=not isinstance(error, UndecodablePayload),
        delay=error.delay if isinstance(error, Retry) else None,
        error_class=class_path(error),
        error_message=message_of(error),
        traceback=traceback_of(error),
        fingerprint=fingerprint_of(error),
    )


def released(attempt: Attempt, *, delay: timedelta = timedelta(0)) -> Ending:
    """Return the ending of an attempt that is given back, not counted."""
    job_id, fence_token = attempt.key
    return Ending(id=job_id, fence_token=fence_token, outcome=Outcome.RELEASED, delay=delay)


def overdue(attempt: Attempt, stack: str) -> Ending:
    """Return the ending of an attempt whose handler did not end at its timeout.

    Args:
        attempt: whose thread was written off.
        stack: where it was then.
    """
    job_id, fence_token = attempt.key
    error = JobTimeout(
        "The handler went on after its timeout and was written off: it may still run. Look at "
        "the traceback for what does not let it be interrupted."
    )
    return Ending(
        id=job_id,
        fence_token=fence_token,
        outcome=Outcome.TIMEOUT,
        error_class=class_path(error),
        error_message=message_of(error),
        traceback=storable(stack, MAX_TRACEBACK),
        fingerprint=fingerprint_of(error),
    )
