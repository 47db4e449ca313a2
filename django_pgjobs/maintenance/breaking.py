"""Open and close circuit breakers, and let through what they held."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.breakers import (
    BreakerState,
    change_breaker,
    forget_outcomes,
    list_holders,
    list_probes,
    read_breakers,
    release_held_jobs,
)
from ..store.enqueue import wake_workers
from .service import Report

#: Counts of outcomes are kept for so long: the longest period that may be declared.
_KEPT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of state that a breaker is due for.

    Attributes:
        state: the new one.
        reason: for people.
    """

    state: str
    reason: str


def due_change(breaker: BreakerState) -> Change | None:
    """Return the change that what was seen calls for, or None.

    ::

        closed ── too many failures ──> open ── cooldown ──> half_open
          ^                              ^ └── a failure ──────┤
          └────────── probes succeeded ──┼─────────────────────┘

    """
    seen = breaker.successes + breaker.failures
    match breaker.state:
        case "closed":
            if seen >= breaker.minimum and breaker.failures >= breaker.failure_ratio * seen:
                return Change(
                    "open", f"{breaker.failures} of {seen} attempts failed in {breaker.period}."
                )
        case "open":
            if breaker.is_due:
                return Change("half_open", "It lets probes through.")
        case "half_open":
            if breaker.failures:
                return Change("open", "A probe failed.")
            if breaker.successes >= breaker.probes:
                return Change("closed", "The probes succeeded.")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerKeeper:
    """Moves breakers as the outcomes of their jobs say.

    Args:
        listen: wake sleeping workers for what is let through.
        interval: between two runs.
    """

    listen: bool = True
    interval: timedelta = timedelta(seconds=1)
    name: str = "breakers"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Change what is due, then let through one batch of each breaker."""
        breakers = {}
        changed = {}
        for breaker in read_breakers(connection):
            change = due_change(breaker)
            if change is not None and _apply(connection, breaker, change):
                changed[breaker.name] = change.state
            breakers[breaker.name] = breaker
        released = self._release(connection, breakers, changed, batch_size)
        forget_outcomes(connection, kept=_KEPT, limit=batch_size)
        notes = dict(changed) | ({"released": sum(released.values())} if released else {})
        return Report(
            notes=notes or None, is_full=any(count >= batch_size for count in released.values())
        )

    def _release(
        self,
        connection: psycopg.Connection[Any],
        breakers: dict[str, BreakerState],
        changed: dict[str, str],
        batch_size: int,
    ) -> dict[str, int]:
        """Return how many jobs of each breaker were let through."""
        released = {}
        for name in list_holders(connection):
            breaker = breakers.get(name)
            # Nobody declares it any more: nothing may wait for it.
            state = changed.get(name, breaker.state) if breaker else "closed"
            limit, is_probe = batch_size, False
            if breaker is not None and state == "half_open":
                limit, is_probe = breaker.probes - _outstanding(connection, breaker), True
            if state == "open" or limit <= 0:
                continue
            queues = release_held_jobs(connection, breaker=name, limit=limit, is_probe=is_probe)
            self._wake(connection, queues)
            released[name] = len(queues)
        return {name: count for name, count in released.items() if count}

    def _wake(self, connection: psycopg.Connection[Any], queues: list[str]) -> None:
        if self.listen:
            for queue, count in Counter(queues).items():
                wake_workers(connection, queue=queue, count=count)


def _outstanding(connection: psycopg.Connection[Any], breaker: BreakerState) -> int:
    return sum(name in breaker.job_names for name in list_probes(connection))


def _apply(connection: psycopg.Connection[Any], breaker: BreakerState, change: Change) -> bool:
    return change_breaker(
        connection,
        name=breaker.name,
        from_states=[breaker.state],
        state=change.state,
        reason=change.reason,
        pause=breaker.cooldown,
    )
