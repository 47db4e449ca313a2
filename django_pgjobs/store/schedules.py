"""Fire the slots of schedules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .enqueue import NewJob
from .execute import Executor, JobId, execute, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule whose time has come, locked. ``payload`` is JSON text."""

    id: int
    name: str
    job_name: str
    cron_expression: str
    timezone: str
    tenant_id: int
    queue_name: str
    payload: str
    next_run_at: datetime | None
    now: datetime


def lock_due_schedules(
    connection: Executor, *, limit: int, now: datetime | None = None
) -> list[DueSchedule]:
    """Lock and return the schedules that are due. See sql/maintain/lock_due_schedules.sql."""
    params = {"limit": limit, "now": now}
    return fetch_rows(connection, "maintain/lock_due_schedules", params, DueSchedule)


def fire_slot(
    connection: Executor, *, schedule_id: int, slot_at: datetime, job: NewJob
) -> JobId | None:
    """Enqueue the job of a slot; None when it had fired. See sql/maintain/fire_slot.sql."""
    params = {
        "schedule_id": schedule_id,
        "slot_at": slot_at,
        "job_name": job.job_name,
        "queue": job.queue,
        "tenant_id": job.tenant_id,
        "priority": job.priority,
        "payload": job.payload,
        "payload_version": job.payload_version,
        "max_attempts": job.max_attempts,
        "meta": job.meta,
    }
    ids = fetch_values(connection, "maintain/fire_slot", params)
    return ids[0] if ids else None


def advance_schedule(
    connection: Executor,
    *,
    schedule_id: int,
    last_run_at: datetime | None,
    next_run_at: datetime | None,
) -> None:
    """Move a schedule on to its next slot. See sql/maintain/advance_schedule.sql."""
    params = {
        "schedule_id": schedule_id,
        "last_run_at": last_run_at,
        "next_run_at": next_run_at,
    }
    execute(connection, "maintain/advance_schedule", params)


def disable_schedule(connection: Executor, *, schedule_id: int) -> None:
    """Stop a schedule that can never be due. See sql/maintain/disable_schedule.sql."""
    execute(connection, "maintain/disable_schedule", {"schedule_id": schedule_id})
