"""Where the rows of kept epochs begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

from ..store.epochs import Epochs, forget_floors, use_floors, write_floors


@dataclass(slots=True, kw_only=True)
class FloorWriter:
    """Writes the floors of kept epochs anew, often enough that claims have little to step over.

    Args:
        claims_per_epoch: dead entries to put up with.
    """

    claims_per_epoch: int
    _generation: int | None = field(default=None, init=False)
    _forget_from: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)
    _written_at: int = field(default=0, init=False)
    _seen: int = field(default=0, init=False)

    def is_known(self, epochs: Epochs) -> bool:
        """False when another process wrote the floors that claims read."""
        return self._generation == epochs.floors

    def adopt(self, epochs: Epochs) -> None:
        """Go on from the floors of another process."""
        self._generation = epochs.floors

    def write(self, connection: psycopg.Connection[Any], epochs: Epochs, *, epoch: int) -> None:
        """Write the floors of all kept epochs, and keep those before ``epoch``."""
        written = write_floors(connection, epoch=epoch)
        self._generation = use_floors(connection, generation=written.generation)
        self._count = written.floors
        self._written_at = epochs.claims

    def step(self, connection: psycopg.Connection[Any], epochs: Epochs) -> None:
        """Write the floors if it is time, and forget old ones."""
        if epochs.kept and self._is_time(epochs):
            self.write(connection, epochs, epoch=epochs.epoch_low)
            forget_floors(connection, from_generation=self._forget_from)
            self._forget_from = self._generation or 0
        self._seen = epochs.claims

    def _is_time(self, epochs: Epochs) -> bool:
        claims = epochs.claims - self._written_at
        # With many tenants there are many floors to write and few dead entries for each.
        if claims >= max(self.claims_per_epoch, 2 * self._count):
            return True
        # Once nothing is claimed any more, epochs that are empty go.
        return claims > 0 and epochs.claims == self._seen
