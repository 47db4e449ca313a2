"""Tell of schedules that have not fired in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from .. import signals
from ..policies import ON_TIME
from ..store.schedules import LateSchedule, list_late_schedules
from .service import Report


@dataclass(slots=True, kw_only=True)
class ScheduleWatch:
    """Sends ``schedule_late`` once for each slot that is a minute overdue.

    It runs apart from the scheduler, so that it also tells of what that does not do: while it
    fails, or while somebody holds a schedule's row. When maintenance has been away, the watch
    tells of the slots that came meanwhile before they are fired. While none runs, ``manage.py
    pgjobs_health`` tells of them.

    Args:
        interval: between two runs.
    """

    interval: timedelta = timedelta(seconds=30)
    name: str = "schedule watch"
    _told: set[tuple[int, datetime]] = field(default_factory=set, init=False)

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Tell of schedules that have become late since the last run."""
        late = list_late_schedules(connection, patience=ON_TIME, limit=batch_size)
        new = [schedule for schedule in late if _key(schedule) not in self._told]
        for schedule in new:
            signals.schedule_late.send_robust(ScheduleWatch, schedule=schedule)
        self._told = {_key(schedule) for schedule in late}
        return Report(touched=[schedule.name for schedule in new])


def _key(schedule: LateSchedule) -> tuple[int, datetime]:
    return schedule.id, schedule.due_at
