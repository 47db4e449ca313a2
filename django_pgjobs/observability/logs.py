"""Log lines, made from signals: ``key=value``, one line for each event.

Payloads are never logged.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import receiver

from .. import signals
from ..definitions.context import JobContext
from ..states import Outcome
from ..store.schedules import LateSchedule

worker_logger = logging.getLogger("django_pgjobs.worker")
maintenance_logger = logging.getLogger("django_pgjobs.maintenance")

_EXPECTED = frozenset({Outcome.COMPLETED, Outcome.SNOOZED, Outcome.CANCELLED, Outcome.RELEASED})


@receiver(signals.job_finished, dispatch_uid="django_pgjobs.observability.logs")
def log_finished(
    *,
    context: JobContext,
    outcome: Outcome,
    error: BaseException | None,
    duration: float,
    **kwargs: Any,
) -> None:
    """Write the one line of an attempt; with its traceback when it failed."""
    level = logging.INFO if outcome in _EXPECTED else logging.WARNING
    if not worker_logger.isEnabledFor(level):
        return
    worker_logger.log(
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


@receiver(signals.lease_lost, dispatch_uid="django_pgjobs.observability.logs")
def log_lease_lost(*, job_id: int, fence_token: int, **kwargs: Any) -> None:
    """Say that a worker lost an attempt."""
    worker_logger.warning("lease lost: id=%s fence_token=%s", job_id, fence_token)


@receiver(signals.schedule_late, dispatch_uid="django_pgjobs.observability.logs")
def log_schedule_late(*, schedule: LateSchedule, **kwargs: Any) -> None:
    """Say that a schedule has not fired in time."""
    maintenance_logger.warning(
        "schedule late: name=%r tenant=%s due_at=%s late_by=%s problem=%s",
        schedule.name,
        schedule.tenant_id,
        schedule.due_at.isoformat(),
        schedule.late_by,
        schedule.problem or "-",
    )


@receiver(signals.maintenance_ran, dispatch_uid="django_pgjobs.observability.logs")
def log_maintenance(*, service: str, report: Any, **kwargs: Any) -> None:
    """Say what a maintenance service did."""
    notes = "".join(f" {name}={value}" for name, value in (report.notes or {}).items())
    maintenance_logger.info(
        "%s: touched=%s%s", service, len(report.touched), notes, extra={"touched": report.touched}
    )
