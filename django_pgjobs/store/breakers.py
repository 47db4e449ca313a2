"""Circuit breakers, and the outcomes that move them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .execute import Executor, WorkerId, execute, fetch_rows, fetch_values


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredBreaker:
    """A breaker as the code has it; see ``definitions.breakers.Breaker``."""

    name: str
    job_names: Sequence[str]
    failure_ratio: float
    minimum: int
    period: timedelta
    cooldown: timedelta
    probes: int


@dataclass(frozen=True, slots=True)
class BreakerState:
    """How a breaker stands, and what became of its jobs of late.

    Attributes:
        is_due: it is open, and its time for probes has come.
        successes: since its state changed, and no longer ago than its period.
        failures: likewise.
    """

    name: str
    state: str
    reason: str
    job_names: Sequence[str]
    is_due: bool
    failure_ratio: float
    minimum: int
    period: timedelta
    cooldown: timedelta
    probes: int
    successes: int
    failures: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What was seen of a breaker or of a job with a retry budget."""

    subject: str
    successes: int
    failures: int


def declare_breakers(connection: Executor, breakers: Sequence[DeclaredBreaker]) -> None:
    """Write down what the code declares. See sql/maintain/declare_breakers.sql."""
    rows = sorted(breakers, key=lambda breaker: breaker.name)
    params = {
        "names": [row.name for row in rows],
        "job_lists": [json.dumps(sorted(row.job_names)) for row in rows],
        "failure_ratios": [row.failure_ratio for row in rows],
        "minimums": [row.minimum for row in rows],
        "periods": [row.period for row in rows],
        "cooldowns": [row.cooldown for row in rows],
        "probes": [row.probes for row in rows],
    }
    execute(connection, "maintain/declare_breakers", params)


def read_breakers(connection: Executor, *, now: datetime | None = None) -> list[BreakerState]:
    """Return how each breaker stands. See sql/maintain/read_breakers.sql."""
    return fetch_rows(connection, "maintain/read_breakers", {"now": now}, BreakerState)


def change_breaker(
    connection: Executor,
    *,
    name: str,
    from_states: Sequence[str],
    state: str,
    reason: str,
    changed_by: str = "",
    pause: timedelta | None = None,
    now: datetime | None = None,
) -> bool:
    """Change a breaker's state; say whether. See sql/maintain/change_breaker.sql."""
    params = {
        "name": name,
        "from_states": list(from_states),
        "state": state,
        "reason": reason,
        "changed_by": changed_by,
        "pause": pause,
        "now": now,
    }
    return bool(fetch_values(connection, "maintain/change_breaker", params))


def list_holders(connection: Executor) -> list[str]:
    """Return which breakers hold jobs. See sql/maintain/list_holders.sql."""
    return fetch_values(connection, "maintain/list_holders", {})


def list_probes(connection: Executor) -> list[str]:
    """Return the names of the jobs let through as probes. See sql/maintain/list_probes.sql."""
    return fetch_values(connection, "maintain/list_probes", {})


def release_held_jobs(
    connection: Executor, *, breaker: str, limit: int, is_probe: bool = False
) -> list[str]:
    """Make held jobs pending; return their queues. See sql/maintain/release_held_jobs.sql."""
    params = {"breaker": breaker, "limit": limit, "is_probe": is_probe}
    return fetch_values(connection, "maintain/release_held_jobs", params)


def forget_outcomes(connection: Executor, *, kept: timedelta, limit: int) -> int:
    """Drop old counts; return how many. See sql/maintain/forget_outcomes.sql."""
    params = {"kept": kept, "limit": limit}
    return len(fetch_values(connection, "maintain/forget_outcomes", params))


def count_outcomes(
    connection: Executor,
    counts: Sequence[Outcomes],
    *,
    periods: Sequence[timedelta],
    worker_id: WorkerId,
) -> list[Outcomes]:
    """Write down what was seen, and hear of all. See sql/finish/count_outcomes.sql."""
    params = {
        "subjects": [count.subject for count in counts],
        "successes": [count.successes for count in counts],
        "failures": [count.failures for count in counts],
        "periods": list(periods),
        "worker_id": worker_id,
    }
    return fetch_rows(connection, "finish/count_outcomes", params, Outcomes)
