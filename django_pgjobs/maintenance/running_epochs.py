"""Epochs of running rows: few rows, so that moving on always pays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

from ..store.epochs import (
    Epochs,
    list_claims,
    move_running_epoch,
    raise_running_epoch_low,
    restamp_running,
)
from ..store.execute import JobId
from .horizon import Age


@dataclass(slots=True, kw_only=True)
class RunningEpochs:
    """Begins new epochs of running rows, and moves what is left in old ones.

    Caps are counted from the lowest epoch on, and a running row below it would not be counted.
    So the lowest is raised only after every claim has ended that may have read an older one.

    Args:
        claims_per_epoch: dead entries to put up with.
    """

    claims_per_epoch: int
    _age: Age = field(default_factory=Age, init=False)
    _claims: frozenset[str] | None = field(default=None, init=False)

    def step(
        self, connection: psycopg.Connection[Any], epochs: Epochs, *, batch_size: int
    ) -> list[JobId]:
        """Move on if it is time; then move one batch of rows. Return their ids."""
        newest, lowest = epochs.running_epoch, epochs.running_epoch_low
        if self._claims is None:
            # After another process there may be anything.
            self._claims = list_claims(connection)
            lowest = 0
        if self._age.claims(epochs) >= self.claims_per_epoch and lowest == newest:
            newest = move_running_epoch(connection)
            self._claims = list_claims(connection)
            self._age.restart(epochs)
        moved = restamp_running(connection, limit=batch_size, from_epoch=lowest)
        if epochs.running_epoch_low < newest and len(moved) < batch_size:
            self._claims &= list_claims(connection)
            if not self._claims:
                raise_running_epoch_low(connection, epoch=newest)
        return moved
