"""Failures, told to error reporters."""

from __future__ import annotations

from typing import Any, Final

from django.dispatch import receiver

from .. import signals
from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..definitions.retries import may_succeed
from ..states import Outcome

_FAILURES: Final = frozenset({Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST})


@receiver(signals.job_finished, dispatch_uid="django_pgjobs.observability.failures")
def tell_failure(
    *,
    sender: JobDefinition,
    context: JobContext,
    outcome: Outcome,
    error: BaseException | None,
    duration: float,
    **kwargs: Any,
) -> None:
    """Send ``job_failed`` for an attempt that has."""
    if outcome not in _FAILURES or error is None:
        return
    is_retryable = may_succeed(error, retry_on=sender.retry_on, discard_on=sender.discard_on)
    signals.job_failed.send_robust(
        sender,
        context=context,
        outcome=outcome,
        error=error,
        duration=duration,
        will_retry=is_retryable and context.attempt < context.max_attempts,
    )
