"""What became of jobs with a breaker or a retry budget, told to all workers."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any, Final

import psycopg

from ..definitions.breakers import Breaker, RetryBudget
from ..definitions.definition import JobDefinition
from ..definitions.registry import Registry
from ..states import Outcome
from ..store.breakers import Outcomes, count_outcomes, declare_breakers
from ..store.execute import WorkerId
from ..store.finish import Ending, Success
from .recording import Recorded

#: Seconds between two tellings.
_EVERY: Final = 1.0

_FAILURES: Final = frozenset({Outcome.FAILED, Outcome.TIMEOUT})


@dataclass(slots=True)
class _Count:
    successes: int = 0
    failures: int = 0


class Tally:
    """Counts outcomes here, and knows what all workers counted. Thread-safe.

    A worker that dies takes a second's counts with it: they are for judging by, not for keeping.

    Args:
        registry: names the breaker and the budget of each job.
        worker_id: of the worker.
    """

    def __init__(self, registry: Registry, worker_id: WorkerId) -> None:
        self._worker_id = worker_id
        self._definitions = {
            definition.name: definition
            for definition in registry
            if definition.breaker is not None or definition.retry_budget is not None
        }
        self._periods = dict(_periods(self._definitions.values()))
        self._declared = registry.breakers()
        self._counts: defaultdict[str, _Count] = defaultdict(_Count)
        self._of_all: dict[str, Outcomes] = {}
        self._lock = threading.Lock()
        self._due_at = 0.0

    def spread(self, job_name: str, ending: Ending) -> Ending:
        """Return ``ending`` with the further delay that the job's retry budget asks for."""
        definition = self._definitions.get(job_name)
        budget = definition.retry_budget if definition else None
        if budget is None or not _is_failure(ending):
            return ending
        subject = f"job {job_name}"
        with self._lock:
            here = self._counts[subject]
            known = self._of_all.get(subject, Outcomes(subject, 0, 0))
            successes = known.successes + here.successes
            retries = known.failures + here.failures + 1
        return replace(ending, spread=budget.spread(successes=successes, retries=retries))

    def note(self, job_name: str, outcome: Success | Ending | Recorded) -> None:
        """Count an outcome that is on record."""
        definition = self._definitions.get(job_name)
        if definition is None:
            return
        if isinstance(outcome, Ending) and not _is_failure(outcome):
            return
        with self._lock:
            for subject in _subjects(definition):
                if isinstance(outcome, Ending):
                    self._counts[subject].failures += 1
                else:
                    self._counts[subject].successes += 1

    def tell_if_due(self, connection: psycopg.Connection[Any]) -> None:
        """Write down what was counted, and hear what all have.

        Raises:
            psycopg.Error: it could not be written. It is kept.
        """
        if not self._definitions or monotonic() < self._due_at:
            return
        if self._declared:
            declare_breakers(connection, self._declared)
            self._declared = []
        with self._lock:
            counts, self._counts = self._counts, defaultdict(_Count)
        given = [
            Outcomes(subject, counts[subject].successes, counts[subject].failures)
            for subject in self._periods
            if subject in counts or subject in self._of_all
        ]
        if given:
            periods = [self._periods[count.subject] for count in given]
            try:
                found = count_outcomes(
                    connection, given, periods=periods, worker_id=self._worker_id
                )
            except psycopg.Error:
                self._take_back(given)
                raise
            with self._lock:
                # Whose period has passed without an outcome is not asked about again.
                self._of_all = {one.subject: one for one in found if one.successes or one.failures}
        self._due_at = monotonic() + _EVERY

    def _take_back(self, counts: Iterable[Outcomes]) -> None:
        with self._lock:
            for count in counts:
                self._counts[count.subject].successes += count.successes
                self._counts[count.subject].failures += count.failures


def _is_failure(ending: Ending) -> bool:
    # A mistake in the job, or a snooze, says nothing about the other side.
    return ending.outcome in _FAILURES and ending.is_retryable


def _subjects(definition: JobDefinition) -> list[str]:
    subjects = []
    if definition.breaker is not None:
        subjects.append(f"breaker {definition.breaker.name}")
    if definition.retry_budget is not None:
        subjects.append(f"job {definition.name}")
    return subjects


def _periods(definitions: Iterable[JobDefinition]) -> Iterable[tuple[str, timedelta]]:
    for definition in definitions:
        guards: list[Breaker | RetryBudget | None] = [definition.breaker, definition.retry_budget]
        present = [guard.period for guard in guards if guard is not None]
        yield from zip(_subjects(definition), present, strict=True)
