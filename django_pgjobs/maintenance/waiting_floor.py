"""Where the stager begins to look while something holds back vacuum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from ..store.epochs import Epochs, find_waiting_floor, list_writers, set_waiting_floor
from .horizon import Age

#: Everything is looked at.
_GROUND: Final = 1

#: Steps to wait for the transactions that may still write below a floor.
_PATIENCE: Final = 8


@dataclass(slots=True, kw_only=True)
class WaitingFloor:
    """Raises the floor of waiting rows above the dead entries of those that were staged.

    What is waiting is written with a time that has not come, so below a time that has passed no
    new rows come, but from transactions that are already writing: the floor is raised once they
    have ended, or without those that take long, and lowered again when one of those ends. It is
    also lowered when the clock has gone back, and when vacuum can do its work.

    Args:
        claims_per_epoch: dead entries to put up with.
    """

    claims_per_epoch: int
    _age: Age = field(default_factory=Age, init=False)
    _ask_at: int = field(init=False)
    _wanted: int | None = field(default=None, init=False)
    _waited: int = field(default=0, init=False)
    _writers: frozenset[str] = field(default=frozenset(), init=False)
    _late: frozenset[str] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._ask_at = self.claims_per_epoch

    def step(self, connection: psycopg.Connection[Any], epochs: Epochs) -> None:
        """Raise or lower the floor if it is time."""
        is_pinned = self._age.is_pinned(epochs)
        claims = self._age.claims(epochs)
        if epochs.waiting_floor > _GROUND and (
            not is_pinned or epochs.has_future_floor or self._is_written(connection)
        ):
            set_waiting_floor(connection, floor=_GROUND)
            self._wanted, self._late, self._ask_at = None, frozenset(), 1
        elif self._wanted is not None:
            self._raise(connection, epochs, self._wanted)
        elif claims >= self._ask_at:
            self._wanted = find_waiting_floor(connection)
            # Listed after the look: who is in neither writes a later time.
            self._writers, self._waited = list_writers(connection), 0

    def _is_written(self, connection: psycopg.Connection[Any]) -> bool:
        """Say whether one of the transactions has ended that were too slow to wait for."""
        if not self._late:
            return False
        before = self._late
        self._late &= list_writers(connection)
        return self._late != before

    def _raise(self, connection: psycopg.Connection[Any], epochs: Epochs, floor: int) -> None:
        self._writers &= list_writers(connection)
        self._waited += 1
        if self._writers and self._waited < _PATIENCE:
            return
        # What those have written that were waited for is looked at only now.
        set_waiting_floor(connection, floor=min(floor, find_waiting_floor(connection)))
        self._late |= self._writers
        self._wanted, self._ask_at = None, self.claims_per_epoch
        self._age.restart(epochs)
