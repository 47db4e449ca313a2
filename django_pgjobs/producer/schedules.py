"""Declare schedules in code."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, Final

from ..definitions.definition import JobDefinition
from ..definitions.registry import registry
from ..definitions.schedules import Schedule, ScheduleOptions, declared
from ..exceptions import InvalidSchedule

#: No setting is read while modules are imported; ``migrate`` looks at the size again.
_ANY_SIZE: Final = 2**31

#: What ``@job`` takes: a schedule of its own goes where the job goes.
SCHEDULE_OPTIONS: Final = frozenset(
    {"cron", "timezone", "catch_up", "catch_up_limit", "overlap", "jitter"}
)


def declare_schedule(
    definition: JobDefinition,
    *,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    **options: Any,
) -> Schedule:
    """Register a schedule of a job.

    Args:
        definition: of the job.
        name: of the schedule; the job's unless given.
        arguments: of the handler, by name.
        **options: see :class:`ScheduleOptions`.

    Raises:
        InvalidSchedule: it makes no sense, or another one has the name.
    """
    known = [field.name for field in dataclasses.fields(ScheduleOptions)]
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            guess = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
            raise InvalidSchedule(f"A schedule has no option {option!r}. {guess}")
    if "cron" not in options:
        raise InvalidSchedule(
            f"A schedule of {definition.name} needs cron, such as cron='0 6 * * *'."
        )
    schedule = declared(
        definition,
        ScheduleOptions(**options),
        name=name,
        arguments={} if arguments is None else arguments,
        max_payload_bytes=_ANY_SIZE,
    )
    registry.add_schedule(schedule)
    return schedule
