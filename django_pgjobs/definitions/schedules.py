"""A declared schedule: which job, with what, and when."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from ..exceptions import InvalidPayload, InvalidSchedule
from ..policies import CatchUp, Overlap
from .definition import (
    JobDefinition,
    is_text,
    overriding_problems,
)
from .payloads import encode_payload
from .timetables import read_timetable

MAX_NAME_BYTES: Final = 255
MOST_CAUGHT_UP: Final = 1_000
LONGEST_JITTER: Final = timedelta(hours=24)
_BIGINT: Final = range(-(2**63) + 1, 2**63)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """When a schedule enqueues its job, and how.

    Attributes:
        cron: five fields, or six with the seconds at the end, or ``@daily`` and the like.
        timezone: IANA name of the zone whose wall clock the expression means; None for the
            project's ``TIME_ZONE``.
        tenant: for whom; 0 for none.
        queue: where its jobs go; None for the job's own.
        priority: of its jobs; None for the job's own.
        max_attempts: of its jobs; None for the job's own.
        catch_up: what becomes of missed slots: ``skip``, ``catch_up`` or ``collapse``.
        catch_up_limit: most missed slots to fire or to tell a job of, 1 to 1000.
        overlap: what becomes of a slot while the last job is unfinished: ``allow``, ``skip`` or
            ``queue_one``.
        jitter: jobs start up to so much later than their slots; at most a day.

    Raises:
        InvalidSchedule: a value makes no sense, or the expression is never due.
    """

    cron: str
    timezone: str | None = None
    tenant: int = 0
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    catch_up: str = CatchUp.SKIP.value
    catch_up_limit: int = 100
    overlap: str = Overlap.ALLOW.value
    jitter: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        # The project's own zone is Django's to check; it is not read while jobs are imported.
        read_timetable(self.cron, "UTC" if self.timezone is None else self.timezone)
        for problem in _problems(self):
            raise InvalidSchedule(problem)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule with its job and arguments. Made by :func:`declared`.

    Attributes:
        name: unique among the schedules of a tenant.
        job_name: what it enqueues.
        payload: the arguments, as JSON text.
        payload_version: of the arguments.
        options: when and how.
    """

    name: str
    job_name: str
    payload: str
    payload_version: int
    options: ScheduleOptions

    @property
    def key(self) -> tuple[str, int]:
        """What is unique: the name and the tenant."""
        return self.name, self.options.tenant

    def columns(self, *, default_timezone: str) -> dict[str, Any]:
        """Return the row's columns, but for its name and tenant."""
        options = self.options
        return {
            "job_name": self.job_name,
            "cron_expression": options.cron,
            "timezone": options.timezone or default_timezone,
            "queue_name": options.queue or "",
            "priority": options.priority,
            "max_attempts": options.max_attempts,
            "payload": json.loads(self.payload),
            "payload_version": self.payload_version,
            "catch_up": str(options.catch_up),
            "catch_up_limit": options.catch_up_limit,
            "overlap": str(options.overlap),
            "jitter": options.jitter,
        }


def declared(
    definition: JobDefinition,
    options: ScheduleOptions,
    *,
    name: str | None,
    arguments: Mapping[str, Any],
    max_payload_bytes: int,
) -> Schedule:
    """Return the schedule of a job, with what its declaration says of the job.

    So that the row has all that maintenance needs, where the job's code is not installed.

    Args:
        definition: of the job.
        options: when and how.
        name: of the schedule; None for the job's.
        arguments: of the handler, by name.
        max_payload_bytes: limit of the encoded arguments.

    Raises:
        InvalidSchedule: the name makes no sense, or the arguments do not fit the handler.
    """
    name = definition.name if name is None else name
    if not is_text(name, MAX_NAME_BYTES):
        raise InvalidSchedule(
            f"The name of a schedule must be text of 1 to {MAX_NAME_BYTES} bytes without NUL, "
            f"not {name!r}."
        )
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise InvalidSchedule(
            f"The schedule {name!r}: arguments must be a dict with the names of parameters as "
            f"keys, not {arguments!r}."
        )
    try:
        payload = encode_payload(definition.bind((), dict(arguments)), max_bytes=max_payload_bytes)
    except InvalidPayload as error:
        raise InvalidSchedule(f"The schedule {name!r}: {error}") from error
    options = dataclasses.replace(
        options,
        queue=options.queue or definition.queue,
        priority=definition.priority if options.priority is None else options.priority,
        max_attempts=options.max_attempts or definition.max_attempts,
    )
    return Schedule(
        name=name,
        job_name=definition.name,
        payload=payload,
        payload_version=definition.payload_version,
        options=options,
    )


def policy_problems(catch_up: object, overlap: object) -> list[str]:
    """Return what is wrong with a schedule's policies."""
    problems = []
    if catch_up not in CatchUp.values:
        problems.append(f"catch_up must be one of {', '.join(CatchUp.values)}, not {catch_up!r}.")
    if overlap not in Overlap.values:
        problems.append(f"overlap must be one of {', '.join(Overlap.values)}, not {overlap!r}.")
    if catch_up == CatchUp.CATCH_UP and overlap != Overlap.ALLOW:
        problems.append(
            "A schedule that catches up with each missed slot needs overlap='allow': it enqueues "
            "several jobs at once. To run one job for them, choose catch_up='collapse'."
        )
    return problems


def _problems(options: ScheduleOptions) -> list[str]:
    problems = policy_problems(options.catch_up, options.overlap)
    problems += overriding_problems(options.queue, options.priority, options.max_attempts)
    if type(options.tenant) is not int or options.tenant not in _BIGINT:
        problems.append(
            f"tenant must be a whole number of at most 63 bits, not {options.tenant!r}."
        )
    limit = options.catch_up_limit
    if type(limit) is not int or not 1 <= limit <= MOST_CAUGHT_UP:
        problems.append(f"catch_up_limit must be 1 to {MOST_CAUGHT_UP}, not {limit!r}.")
    jitter = options.jitter
    if not isinstance(jitter, timedelta) or not timedelta(0) <= jitter <= LONGEST_JITTER:
        problems.append(f"jitter must be a timedelta of 0 to 24 hours, not {jitter!r}.")
    return problems
