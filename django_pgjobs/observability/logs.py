"""Log lines, made from signals: ``key=value``, one line for each event.

Payloads are never logged.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import receiver

from .. import signals
from ..store.schedules import LateSchedule

worker_logger = logging.getLogger("django_pgjobs.worker")
maintenance_logger = logging.getLogger("django_pgjobs.maintenance")


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
