"""The registered definitions, by name."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator

from ..exceptions import DuplicateJobName, InvalidHandler, InvalidSchedule, UnknownJob
from ..store.breakers import DeclaredBreaker
from .breakers import Breaker
from .definition import JobDefinition
from .schedules import Schedule


class Registry:
    """Every definition of a process, by name."""

    def __init__(self) -> None:
        self._definitions: dict[str, JobDefinition] = {}
        self._schedules: dict[tuple[str, int], Schedule] = {}

    def add(self, definition: JobDefinition) -> None:
        """Register ``definition``.

        A module imported twice, as an autoreload or a doctest may do, registers its
        functions again; the same function under the same name is no conflict.

        Raises:
            DuplicateJobName: another function has the name.
            InvalidHandler: another job declares its breaker with other values.
        """
        self._check_breaker(definition)
        known = self._definitions.get(definition.name)
        if known is not None and not _is_same_again(known, definition):
            raise DuplicateJobName(
                f"Two functions are declared as job {definition.name!r}: {_place(known)} and "
                f"{_place(definition)}. Give one of them another name: @job(name=…)."
            )
        self._definitions[definition.name] = definition

    def add_schedule(self, schedule: Schedule) -> None:
        """Register ``schedule``. The same again is no conflict.

        Raises:
            InvalidSchedule: another one of the tenant has the name.
        """
        known = self._schedules.get(schedule.key)
        if known is not None and known != schedule:
            raise InvalidSchedule(
                f"Two schedules are called {schedule.name!r}, of {known.job_name} and of "
                f"{schedule.job_name}. Give one of them another name: schedule(…, name=…)."
            )
        self._schedules[schedule.key] = schedule

    @property
    def schedules(self) -> list[Schedule]:
        """Every schedule that is declared in code."""
        return list(self._schedules.values())

    def _check_breaker(self, definition: JobDefinition) -> None:
        breaker = definition.breaker
        if breaker is None:
            return
        for other in self:
            known = other.breaker if other.name != definition.name else None
            if known is not None and known.name == breaker.name and known != breaker:
                raise InvalidHandler(
                    f"{definition.name!r} and {other.name!r} declare the breaker {breaker.name!r} "
                    "with different values. Make one Breaker and give it to both."
                )

    def find(self, name: str) -> JobDefinition | None:
        """Return the definition called ``name``, or None."""
        return self._definitions.get(name)

    def get(self, name: str) -> JobDefinition:
        """Return the definition called ``name``.

        Raises:
            UnknownJob: there is none; the message tells what there is.
        """
        definition = self._definitions.get(name)
        if definition is None:
            raise UnknownJob(self.explain_missing(name))
        return definition

    def breakers(self) -> list[DeclaredBreaker]:
        """Return the breakers that jobs declare, each with its jobs."""
        jobs: defaultdict[Breaker, list[str]] = defaultdict(list)
        for definition in self:
            if definition.breaker is not None:
                jobs[definition.breaker].append(definition.name)
        return [
            DeclaredBreaker(
                name=breaker.name,
                job_names=names,
                failure_ratio=breaker.failure_ratio,
                minimum=breaker.minimum,
                period=breaker.period,
                cooldown=breaker.cooldown,
                probes=breaker.probes,
            )
            for breaker, names in jobs.items()
        ]

    def explain_missing(self, name: str) -> str:
        """Return a sentence that helps to find out why ``name`` is not registered."""
        close = difflib.get_close_matches(str(name), self._definitions, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        known = ", ".join(sorted(self._definitions)) or "none"
        return (
            f"No job named {name!r} is registered.{guess} Is the app that declares it in "
            f"INSTALLED_APPS of this process, and its module called jobs.py? Known: {known}."
        )

    def __iter__(self) -> Iterator[JobDefinition]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)

    def __contains__(self, name: object) -> bool:
        return name in self._definitions


def _is_same_again(known: JobDefinition, definition: JobDefinition) -> bool:
    if _place(known) != _place(definition):
        return False
    # A second import compiles anew. One code in two functions is a function that is defined
    # in a loop or in another function: they differ in what they close over.
    is_repeated = known.function.__code__ is definition.function.__code__
    return known.function is definition.function or not is_repeated


def _place(definition: JobDefinition) -> str:
    code = definition.function.__code__
    function = f"{definition.function.__module__}.{definition.function.__qualname__}"
    return f"{function} (line {code.co_firstlineno})"


#: What ``@job`` registers into.
registry = Registry()
