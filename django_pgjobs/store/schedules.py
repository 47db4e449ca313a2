"""Fire the slots of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .execute import Executor, JobId, execute, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule that has something to fire, locked.

    Attributes:
        handled_until: slots at or before this instant never fire.
        queued_slot_at: a slot that waits for the last job to finish.
        now: the server's clock.
    """

    id: int
    name: str
    job_name: str
    cron_expression: str
    timezone: str
    catch_up: str
    catch_up_limit: int
    overlap: str
    jitter: timedelta
    handled_until: datetime
    queued_slot_at: datetime | None
    last_job_id: JobId | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A job to enqueue for a slot.

    Attributes:
        schedule_id: whose slot it is.
        slot_at: the due instant; None for a run by hand.
        jitter: by how much later the job may start.
        queue: where the schedule names none.
        priority: likewise.
        max_attempts: likewise.
        meta: JSON text.
    """

    schedule_id: int
    slot_at: datetime | None
    jitter: timedelta = timedelta(0)
    queue: str
    priority: int
    max_attempts: int
    meta: str


@dataclass(frozen=True, slots=True)
class FiredSlot:
    """A job that was enqueued for a slot."""

    schedule_id: int
    job_id: JobId
    queue_name: str
    is_pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Where a schedule stands after it was looked at; see sql/maintain/advance_schedules.sql."""

    id: int
    handled_until: datetime | None
    next_run_at: datetime
    queued_slot_at: datetime | None = None
    job_id: JobId | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LateSchedule:
    """A schedule that has not fired in time, or cannot be fired.

    Attributes:
        id: of the schedule.
        name: of the schedule.
        tenant_id: 0 for none.
        due_at: when it should have been looked at.
        late_by: since then; zero where there is only a problem.
        problem: why it cannot be fired, or empty.
    """

    id: int
    name: str
    tenant_id: int
    due_at: datetime
    late_by: timedelta
    problem: str


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """What became of a slot: ``status`` is the job's, None when that is gone."""

    slot_at: datetime
    kind: str
    job_id: JobId | None
    status: str | None


def lock_due_schedules(
    connection: Executor, *, limit: int, now: datetime | None = None
) -> list[DueSchedule]:
    """Lock and return the schedules that are due. See sql/maintain/lock_due_schedules.sql."""
    params = {"limit": limit, "now": now}
    return fetch_rows(connection, "maintain/lock_due_schedules", params, DueSchedule)


def list_unfinished_jobs(connection: Executor, ids: Sequence[JobId]) -> list[JobId]:
    """Return which jobs have not finished. See sql/maintain/list_unfinished_jobs.sql."""
    return fetch_values(connection, "maintain/list_unfinished_jobs", {"ids": list(ids)})


def fire_slots(
    connection: Executor, firings: Sequence[Firing], *, now: datetime | None = None
) -> list[FiredSlot]:
    """Enqueue a job for each slot that has not fired. See sql/maintain/fire_slots.sql."""
    params = {
        "schedule_ids": [firing.schedule_id for firing in firings],
        "slots": [firing.slot_at for firing in firings],
        "jitters": [firing.jitter for firing in firings],
        "queues": [firing.queue for firing in firings],
        "priorities": [firing.priority for firing in firings],
        "max_attempts": [firing.max_attempts for firing in firings],
        "metas": [firing.meta for firing in firings],
        "now": now,
    }
    return fetch_rows(connection, "maintain/fire_slots", params, FiredSlot)


def skip_slots(
    connection: Executor, slots: Sequence[tuple[int, datetime]], *, now: datetime | None = None
) -> None:
    """Record slots, by schedule, that do not fire. See sql/maintain/skip_slots.sql."""
    params = {
        "schedule_ids": [schedule_id for schedule_id, _ in slots],
        "slots": [slot for _, slot in slots],
        "now": now,
    }
    execute(connection, "maintain/skip_slots", params)


def advance_schedules(
    connection: Executor, advances: Sequence[Advance], *, now: datetime | None = None
) -> None:
    """Move schedules on to their next slots. See sql/maintain/advance_schedules.sql."""
    params = {
        "ids": [advance.id for advance in advances],
        "handled_until": [advance.handled_until for advance in advances],
        "next_run_at": [advance.next_run_at for advance in advances],
        "queued_slot_at": [advance.queued_slot_at for advance in advances],
        "job_ids": [advance.job_id for advance in advances],
        "problems": [advance.problem for advance in advances],
        "now": now,
    }
    execute(connection, "maintain/advance_schedules", params)


def prune_slots(
    connection: Executor, *, retention: timedelta, limit: int, now: datetime | None = None
) -> list[datetime]:
    """Forget slots that were recorded long ago. See sql/maintain/prune_slots.sql."""
    params = {"retention": retention, "limit": limit, "now": now}
    return fetch_values(connection, "maintain/prune_slots", params)


def list_late_schedules(
    connection: Executor, *, patience: timedelta, limit: int, now: datetime | None = None
) -> list[LateSchedule]:
    """Return what has not fired in time. See sql/observe/list_late_schedules.sql."""
    params = {"patience": patience, "limit": limit, "now": now}
    return fetch_rows(connection, "observe/list_late_schedules", params, LateSchedule)


def list_slots(connection: Executor, *, schedule_id: int, limit: int) -> list[SlotRecord]:
    """Return what became of the last slots of a schedule. See sql/observe/list_slots.sql."""
    params = {"schedule_id": schedule_id, "limit": limit}
    return fetch_rows(connection, "observe/list_slots", params, SlotRecord)
