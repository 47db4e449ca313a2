"""Fire the slots of cron schedules."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from ..definitions.payloads import encode
from ..definitions.registry import Registry
from ..definitions.timetables import next_slot
from ..exceptions import InvalidSchedule
from ..store.enqueue import NewJob, wake_workers
from ..store.execute import JobId
from ..store.schedules import (
    DueSchedule,
    advance_schedule,
    disable_schedule,
    fire_slot,
    lock_due_schedules,
)
from .service import Report

logger = logging.getLogger("django_pgjobs.maintenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Enqueues a job for each slot of each enabled schedule, once.

    Slots missed while no scheduler ran are skipped but for the latest.

    Args:
        registry: gives queue, priority and attempts of the jobs it knows.
        default_queue: of jobs it does not know.
        default_max_attempts: of jobs it does not know.
        listen: wake a sleeping worker for each job.
        interval: between two runs.
    """

    registry: Registry
    default_queue: str
    default_max_attempts: int
    listen: bool = True
    interval: timedelta = timedelta(seconds=1)
    name: str = "scheduler"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Fire what is due, in one transaction under the schedules' row locks."""
        fired: list[JobId] = []
        with connection.transaction():
            schedules = lock_due_schedules(connection, limit=batch_size)
            for schedule in schedules:
                fired += self._fire(connection, schedule)
        return Report(touched=fired, is_full=len(schedules) >= batch_size)

    def _fire(self, connection: psycopg.Connection[Any], schedule: DueSchedule) -> list[JobId]:
        try:
            slot, following = due_slot(schedule)
        except InvalidSchedule as error:
            # One bad row does not stop the others.
            logger.error("The schedule %r was disabled: %s", schedule.name, error)
            disable_schedule(connection, schedule_id=schedule.id)
            return []
        fired = []
        if slot is not None:
            job = self._job(schedule, slot)
            job_id = fire_slot(connection, schedule_id=schedule.id, slot_at=slot, job=job)
            fired = [job_id] if job_id is not None else []
            if fired and self.listen:
                wake_workers(connection, queue=job.queue, count=1)
        advance_schedule(
            connection, schedule_id=schedule.id, last_run_at=slot, next_run_at=following
        )
        return fired

    def _job(self, schedule: DueSchedule, slot: datetime) -> NewJob:
        definition = self.registry.find(schedule.job_name)
        queue = schedule.queue_name or (definition and definition.queue) or self.default_queue
        max_attempts = (definition and definition.max_attempts) or self.default_max_attempts
        return NewJob(
            job_name=schedule.job_name,
            queue=queue,
            tenant_id=schedule.tenant_id,
            priority=definition.priority if definition else 0,
            payload=schedule.payload,
            payload_version=definition.payload_version if definition else 1,
            max_attempts=max_attempts,
            meta=encode({"schedule": schedule.name, "slot": slot.isoformat()}),
        )


def due_slot(schedule: DueSchedule) -> tuple[datetime | None, datetime]:
    """Return the latest slot that is due, if any, and the slot after it.

    Raises:
        InvalidSchedule: its expression or zone is invalid.
    """
    expression, zone = schedule.cron_expression, schedule.timezone
    if schedule.next_run_at is None:
        # New: its first slot is yet to come.
        return None, next_slot(expression, zone, after=schedule.now)
    slot = schedule.next_run_at
    following = next_slot(expression, zone, after=slot)
    if following <= schedule.now:
        # Some were missed. Search back in growing steps for the latest.
        slot = latest_slot(expression, zone, before=schedule.now)
        following = next_slot(expression, zone, after=slot)
    return slot, following


def latest_slot(expression: str, timezone: str, *, before: datetime) -> datetime:
    """Return the latest slot at or before ``before``, which is known to exist."""
    step = timedelta(seconds=1)
    while next_slot(expression, timezone, after=before - step) > before:
        step *= 2
    slot = next_slot(expression, timezone, after=before - step)
    while (following := next_slot(expression, timezone, after=slot)) <= before:
        slot = following
    return slot
