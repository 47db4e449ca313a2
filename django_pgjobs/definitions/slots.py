"""The job of a slot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from ..store.schedules import Firing
from .definition import JobDefinition
from .payloads import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a job gets where neither its schedule nor its declaration says anything."""

    queue: str
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSlot:
    """What the job of a schedule may know about its slot.

    Attributes:
        schedule: name of the schedule.
        at: the due instant, in UTC; None for a run by hand.
        missed: slots that were missed and that the job stands for too, where the schedule
            collapses; of many, the latest.
        is_all: ``missed`` has all of them.
    """

    schedule: str
    at: datetime | None
    missed: tuple[datetime, ...] = ()
    is_all: bool = True


class MissedSlots(Protocol):
    """Slots without a job of their own, and whether these are all of them."""

    @property
    def slots(self) -> tuple[datetime, ...]: ...

    @property
    def is_all(self) -> bool: ...


def firing_of(
    schedule_id: int,
    schedule_name: str,
    slot: datetime | None,
    definition: JobDefinition | None,
    defaults: Defaults,
    *,
    jitter: timedelta = timedelta(0),
    missed: MissedSlots | None = None,
) -> Firing:
    """Return the job to enqueue for a slot.

    Args:
        schedule_id: of the schedule.
        schedule_name: told to the job in its meta, with the slot.
        slot: the due instant; None for a run by hand.
        definition: of the job, in a process that has it.
        defaults: for what neither the schedule nor the definition says.
        jitter: by how much later it may start.
        missed: the slots that it stands for too.
    """
    meta: dict[str, Any] = {"schedule": schedule_name}
    if slot is not None:
        meta["slot"] = slot.isoformat()
    if missed is not None:
        slots = [missed_slot.isoformat() for missed_slot in missed.slots]
        meta["missed"] = {"count": len(slots), "is_all": missed.is_all, "slots": slots}
    return Firing(
        schedule_id=schedule_id,
        slot_at=slot,
        jitter=jitter,
        queue=(definition and definition.queue) or defaults.queue,
        priority=definition.priority if definition else 0,
        max_attempts=(definition and definition.max_attempts) or defaults.max_attempts,
        meta=encode(meta),
    )


def slot_of(meta: str | None) -> ScheduledSlot | None:
    """Return the slot that a job's meta, JSON text, tells of; None for a job of no schedule."""
    # Cheaper than to decode each, and most jobs have no schedule.
    if meta is None or '"schedule"' not in meta:
        return None
    told = json.loads(meta)
    missed = told.get("missed", {"slots": [], "is_all": True})
    at = told.get("slot")
    return ScheduledSlot(
        schedule=told["schedule"],
        at=None if at is None else datetime.fromisoformat(at),
        missed=tuple(datetime.fromisoformat(slot) for slot in missed["slots"]),
        is_all=missed["is_all"],
    )
