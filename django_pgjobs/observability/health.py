"""The state of a site in one answer, and what is wrong with it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..policies import ON_TIME
from ..store.breakers import BreakerState, read_breakers
from ..store.epochs import Epochs, read_epochs
from ..store.observe import QueueState, Vitals, count_held, read_queues, read_vitals
from ..store.schedules import LateSchedule, list_late_schedules

#: Pending jobs of a queue, and held ones of a breaker, are counted no further.
COUNT_AT_MOST: Final = 10_000

#: A pending job that waits longer than this is a problem.
PATIENCE: Final = timedelta(minutes=5)

#: Late schedules are told of up to this number.
LATE_AT_MOST: Final = 10

#: Transactions begun since the oldest one that vacuum has to wait for.
OLD_HORIZON: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Health:
    """How a site stands.

    Attributes:
        queues: that have work or are paused.
        vitals: workers, maintenance, partitions.
        epochs: of the claim index, and what holds back vacuum.
        late: schedules that have not fired in time or cannot be fired, the latest first.
        breakers: that jobs declare.
        held: how many jobs each breaker holds, by its name; bounded counts.
        problems: sentences; none in health.
    """

    queues: list[QueueState]
    vitals: Vitals
    epochs: Epochs
    late: list[LateSchedule]
    breakers: list[BreakerState]
    held: dict[str, int]
    problems: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; ages in seconds."""
        return {
            "is_healthy": not self.problems,
            "problems": self.problems,
            "queues": [_queue_as_dict(queue) for queue in self.queues],
            "vitals": dataclasses.asdict(self.vitals),
            "breakers": [
                _breaker_as_dict(breaker) | {"held": self.held.get(breaker.name, 0)}
                for breaker in self.breakers
            ],
            "epochs": dataclasses.asdict(self.epochs)
            | {"live": self.epochs.epoch - self.epochs.epoch_low + 1 + self.epochs.kept},
            "late_schedules": [_schedule_as_dict(schedule) for schedule in self.late],
        }


def read_health(connection: psycopg.Connection[Any], *, lease: timedelta) -> Health:
    """Return how the site stands.

    Args:
        connection: to the tables.
        lease: how long a lease lasts.
    """
    queues = read_queues(connection, limit=COUNT_AT_MOST)
    vitals = read_vitals(connection, silence=lease)
    epochs = read_epochs(connection)
    late = list_late_schedules(connection, patience=ON_TIME, limit=LATE_AT_MOST)
    breakers = read_breakers(connection)
    held = {row.name: row.jobs for row in count_held(connection, limit=COUNT_AT_MOST)}
    problems = problems_of(queues, vitals, epochs)
    problems += [_lateness_of(schedule) for schedule in late]
    problems += [_openness_of(breaker) for breaker in breakers if breaker.state != "closed"]
    return Health(queues, vitals, epochs, late, breakers, held, problems)


def problems_of(queues: list[QueueState], vitals: Vitals, epochs: Epochs) -> list[str]:
    """Return what is wrong, as sentences with what to do."""
    problems = [
        f"Jobs of queue {queue.queue_name!r} have been waiting for {queue.oldest_pending_age}. "
        "Start more workers, or look at what they are doing."
        for queue in queues
        if queue.oldest_pending_age and queue.oldest_pending_age > PATIENCE and not queue.is_paused
    ]
    if not vitals.workers and any(queue.pending for queue in queues):
        problems.append("Jobs are pending and no worker runs. Start manage.py pgjobs_worker.")
    if vitals.leader_id is None:
        problems.append("No maintenance runs. Start manage.py pgjobs_maintain.")
    if vitals.overdue:
        problems.append(f"{vitals.overdue} waiting jobs are due and have not been staged.")
    if vitals.strays:
        problems.append(
            f"{vitals.strays} rows of history have no partition of their day. Maintenance moves "
            "them when it makes the partition; its log says what keeps it from doing so."
        )
    behind = epochs.next_xid - epochs.oldest_xid
    if behind > OLD_HORIZON:
        problems.append(
            f"Something has kept vacuum from working for {behind:,} transactions: an open "
            "transaction, a prepared one, a replication slot or a standby."
        )
    return problems


def _lateness_of(schedule: LateSchedule) -> str:
    if schedule.problem:
        return f"The schedule {schedule.name!r} cannot be fired: {schedule.problem}"
    return (
        f"The schedule {schedule.name!r} has been due for {schedule.late_by} and has not fired. "
        "Does maintenance run, and what does its log say?"
    )


def _openness_of(breaker: BreakerState) -> str:
    state = breaker.state.replace("_", "-")
    return f"The breaker {breaker.name!r} is {state}: its jobs are not claimed. {breaker.reason}"


def _schedule_as_dict(schedule: LateSchedule) -> dict[str, Any]:
    return {
        "schedule": schedule.name,
        "tenant": schedule.tenant_id,
        "due_at": schedule.due_at.isoformat(),
        "late_by_seconds": schedule.late_by.total_seconds(),
        "problem": schedule.problem,
    }


def _breaker_as_dict(breaker: BreakerState) -> dict[str, Any]:
    return {
        "breaker": breaker.name,
        "state": breaker.state,
        "reason": breaker.reason,
        "successes": breaker.successes,
        "failures": breaker.failures,
    }


def _queue_as_dict(queue: QueueState) -> dict[str, Any]:
    age = queue.oldest_pending_age
    return {
        "queue": queue.queue_name,
        "is_paused": queue.is_paused,
        "pending": queue.pending,
        "running": queue.running,
        "oldest_pending_age_seconds": None if age is None else age.total_seconds(),
    }
