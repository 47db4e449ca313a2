"""What a schedule fires: a pure function of where it stands, the clock, and its last job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from ..definitions.timetables import Timetable, read_timetable
from ..policies import ON_TIME, CatchUp, Overlap
from ..store.schedules import DueSchedule

#: Slots that can be on time at once, one a second.
_MOST_ON_TIME: Final = 60


@dataclass(frozen=True, slots=True)
class Missed:
    """Slots without a job of their own, told to the job that stands for them.

    Attributes:
        slots: in order; of many, the latest.
        is_all: these are all of them.
    """

    slots: tuple[datetime, ...]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do about a schedule.

    Attributes:
        fire: slots to enqueue a job for, in order.
        skip: slots that are not fired because a job is unfinished.
        queue: the slot that waits for the last job to finish.
        missed: what the first job to fire stands for, where the schedule collapses.
        is_cut: more slots were missed than the schedule catches up with.
        handled_until: the last slot that has been dealt with; None when none was due.
        next_run_at: the next slot.
    """

    fire: tuple[datetime, ...] = ()
    skip: tuple[datetime, ...] = ()
    queue: datetime | None = None
    missed: Missed | None = None
    is_cut: bool = False
    handled_until: datetime | None
    next_run_at: datetime


def decide(schedule: DueSchedule, *, is_unfinished: bool) -> Decision:
    """Return what to do about a schedule.

    Slots are worked out anew from what was dealt with last, so that it does not matter when the
    schedule was looked at, or what was thought of its next slot before.

    Args:
        schedule: where it stands.
        is_unfinished: its last job is.

    Raises:
        InvalidSchedule: the expression or the zone is invalid.
    """
    timetable = read_timetable(schedule.cron_expression, schedule.timezone)
    next_run_at = timetable.next(max(schedule.handled_until, schedule.now)).at
    on_time, _ = timetable.latest(
        after=max(schedule.handled_until, schedule.now - ON_TIME),
        until=schedule.now,
        limit=_MOST_ON_TIME,
    )
    wanted, missed, is_cut = _catch_up(schedule, on_time, timetable)
    fire, skip, queue = _without_overlap(schedule, wanted, is_unfinished)
    return Decision(
        fire=tuple(fire),
        skip=tuple(skip),
        queue=queue,
        missed=missed,
        is_cut=is_cut,
        # The last of the wanted is the last that was due, whatever the policy.
        handled_until=wanted[-1] if wanted else None,
        next_run_at=next_run_at,
    )


def jitter_of(schedule: DueSchedule, slot: datetime) -> timedelta:
    """Return by how much later than its slot a job may start.

    Below the schedule's jitter, evenly spread over schedules and slots, and always the same for
    one slot.
    """
    if not schedule.jitter:
        return timedelta(0)
    text = f"{schedule.id} {slot.timestamp()}".encode()
    part = int.from_bytes(blake2b(text, digest_size=8).digest()) / 2**64
    return schedule.jitter * part


def _catch_up(
    schedule: DueSchedule, on_time: list[datetime], timetable: Timetable
) -> tuple[list[datetime], Missed | None, bool]:
    """Return which due slots to fire, what the first stands for, and whether some were cut."""
    limit = schedule.catch_up_limit
    if schedule.catch_up == CatchUp.CATCH_UP:
        late, is_all = _late(schedule, timetable, limit)
        return late + on_time, None, not is_all
    if schedule.catch_up == CatchUp.COLLAPSE:
        # One more where it is fired itself.
        late, is_all = _late(schedule, timetable, limit + (not on_time))
        told = late if on_time else late[:-1]
        return on_time or late[-1:], Missed(tuple(told), is_all) if told else None, False
    return on_time or _late(schedule, timetable, 1)[0], None, False


def _late(schedule: DueSchedule, timetable: Timetable, limit: int) -> tuple[list[datetime], bool]:
    """Return the latest slots that were missed, and whether these are all of them."""
    until = schedule.now - ON_TIME
    return timetable.latest(after=schedule.handled_until, until=until, limit=limit)


def _without_overlap(
    schedule: DueSchedule, wanted: list[datetime], is_unfinished: bool
) -> tuple[list[datetime], list[datetime], datetime | None]:
    """Return which slots to fire and to skip, and which waits."""
    if schedule.overlap == Overlap.ALLOW:
        return wanted, [], None
    if schedule.queued_slot_at is not None and schedule.overlap == Overlap.QUEUE_ONE:
        wanted = [schedule.queued_slot_at, *wanted]
    fire = [] if is_unfinished else wanted[:1]
    rest = wanted[len(fire) :]
    if schedule.overlap == Overlap.SKIP or not rest:
        return fire, rest, None
    return fire, rest[:-1], rest[-1]
