"""Fire the slots of cron schedules."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg

from ..definitions.registry import Registry
from ..definitions.slots import Defaults, firing_of
from ..exceptions import InvalidSchedule
from ..policies import Overlap
from ..store.enqueue import wake_workers
from ..store.execute import JobId
from ..store.schedules import (
    Advance,
    DueSchedule,
    FiredSlot,
    Firing,
    advance_schedules,
    fire_slots,
    list_unfinished_jobs,
    lock_due_schedules,
    prune_slots,
    skip_slots,
)
from .due import Decision, decide, jitter_of
from .service import Report

logger = logging.getLogger("django_pgjobs.maintenance")

#: Bound the length of one transaction: each schedule may have a thousand slots to catch up with.
SCHEDULES_AT_MOST: Final = 200
SLOTS_AT_MOST: Final = 2_000

#: Until a schedule that cannot be fired is looked at again.
_TRY_AGAIN: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Enqueues one job for each slot of each enabled schedule.

    Args:
        registry: gives queue, priority and attempts of the jobs it knows.
        defaults: of the jobs it does not know.
        listen: wake sleeping workers.
        interval: between two runs.
    """

    registry: Registry
    defaults: Defaults
    listen: bool = True
    interval: timedelta = timedelta(seconds=1)
    name: str = "scheduler"

    def run_once(
        self,
        connection: psycopg.Connection[Any],
        *,
        batch_size: int,
        now: datetime | None = None,
    ) -> Report:
        """Fire what is due, in one transaction under the schedules' row locks.

        Args:
            connection: to the tables, at READ COMMITTED.
            batch_size: schedules to look at.
            now: None for the server's clock; only tests pass a value.
        """
        limit = min(batch_size, SCHEDULES_AT_MOST)
        with connection.transaction():
            schedules = lock_due_schedules(connection, limit=limit, now=now)
            decisions = _decide_all(schedules, _unfinished(connection, schedules))
            fired = self._fire(connection, decisions, now) if decisions else []
        is_full = len(schedules) >= limit or len(decisions) < len(schedules)
        return Report(touched=[slot.job_id for slot in fired], is_full=is_full)

    def _fire(
        self,
        connection: psycopg.Connection[Any],
        decisions: Sequence[tuple[DueSchedule, Decision | InvalidSchedule]],
        now: datetime | None,
    ) -> list[FiredSlot]:
        firings = [
            firing
            for schedule, decision in decisions
            if isinstance(decision, Decision)
            for firing in self._firings(schedule, decision)
        ]
        fired = fire_slots(connection, firings, now=now) if firings else []
        skipped = [
            (schedule.id, slot)
            for schedule, decision in decisions
            if isinstance(decision, Decision)
            for slot in decision.skip
        ]
        if skipped:
            skip_slots(connection, skipped, now=now)
        last_jobs = {slot.schedule_id: slot.job_id for slot in fired}
        advances = [_advance(*pair, last_jobs.get(pair[0].id)) for pair in decisions]
        advance_schedules(connection, advances, now=now)
        if self.listen:
            pending = Counter(slot.queue_name for slot in fired if slot.is_pending)
            for queue, count in pending.items():
                wake_workers(connection, queue=queue, count=count)
        return fired

    def _firings(self, schedule: DueSchedule, decision: Decision) -> list[Firing]:
        definition = self.registry.find(schedule.job_name)
        first = decision.fire[:1]
        return [
            firing_of(
                schedule.id,
                schedule.name,
                slot,
                definition,
                self.defaults,
                # A slot that has waited for a job has waited enough.
                jitter=timedelta(0)
                if slot == schedule.queued_slot_at
                else jitter_of(schedule, slot),
                missed=decision.missed if (slot,) == first else None,
            )
            for slot in decision.fire
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPruner:
    """Forgets what became of slots when the history of their jobs is gone too.

    Args:
        retention: how long history is kept; None for ever.
        interval: between two runs.
    """

    retention: timedelta | None
    interval: timedelta = timedelta(minutes=10)
    name: str = "slot pruner"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Forget one batch."""
        if self.retention is None:
            return Report()
        pruned = prune_slots(connection, retention=self.retention, limit=batch_size)
        return Report(touched=pruned, is_full=len(pruned) >= batch_size)


def _unfinished(
    connection: psycopg.Connection[Any], schedules: Sequence[DueSchedule]
) -> set[JobId]:
    ids = [
        schedule.last_job_id
        for schedule in schedules
        if schedule.last_job_id is not None and schedule.overlap != Overlap.ALLOW
    ]
    return set(list_unfinished_jobs(connection, ids)) if ids else set()


def _decide_all(
    schedules: Sequence[DueSchedule], unfinished: set[JobId]
) -> list[tuple[DueSchedule, Decision | InvalidSchedule]]:
    """Return what to do about the schedules, or about the first of them if that is enough."""
    decisions: list[tuple[DueSchedule, Decision | InvalidSchedule]] = []
    slots = 0
    for schedule in schedules:
        if slots >= SLOTS_AT_MOST:
            break
        decision = _decide(schedule, unfinished)
        decisions.append((schedule, decision))
        slots += len(decision.fire) if isinstance(decision, Decision) else 0
    return decisions


def _decide(schedule: DueSchedule, unfinished: set[JobId]) -> Decision | InvalidSchedule:
    try:
        decision = decide(schedule, is_unfinished=schedule.last_job_id in unfinished)
    except InvalidSchedule as error:
        # One bad row does not stop the others. It is kept and tried again: perhaps only this
        # process lacks the data of its zone.
        logger.error("The schedule %r cannot be fired: %s", schedule.name, error)
        return error
    if decision.is_cut:
        logger.warning(
            "The schedule %r missed more slots than it catches up with; the earliest are not "
            "fired.",
            schedule.name,
        )
    return decision


def _advance(
    schedule: DueSchedule, decision: Decision | InvalidSchedule, job_id: JobId | None
) -> Advance:
    if isinstance(decision, InvalidSchedule):
        return Advance(
            id=schedule.id,
            handled_until=None,
            next_run_at=schedule.now + _TRY_AGAIN,
            queued_slot_at=schedule.queued_slot_at,
            problem=str(decision),
        )
    return Advance(
        id=schedule.id,
        handled_until=decision.handled_until,
        next_run_at=decision.next_run_at,
        queued_slot_at=decision.queue,
        job_id=job_id,
    )
