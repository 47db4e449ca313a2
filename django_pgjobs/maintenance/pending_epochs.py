"""Epochs of pending rows: a short backlog moves on, a long one stays and gets floors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from ..store.epochs import Epochs, move_epoch, raise_epoch_low, restamp_pending
from ..store.execute import JobId
from ..store.observe import count_pending
from .floors import FloorWriter
from .horizon import Age
from .latecomers import Latecomers

#: Each costs a claim one more index probe for each tenant.
MOST_KEPT: Final = 8

#: So many times as many claims as for the epoch before are needed to keep one more, so that there
#: are few however long the backlog grows.
_GROWTH: Final = 4


@dataclass(slots=True, kw_only=True)
class PendingEpochs:
    """Begins new epochs of pending rows, and sees to what is left in old ones.

    Where fewer rows are left than have been claimed, they are moved, which costs less than the
    claims did. Otherwise they stay, and the old epoch is kept: claims start at its floors.

    A process that has just begun knows nothing of earlier moves and looks through all epochs.

    Args:
        claims_per_epoch: dead entries to put up with.
    """

    claims_per_epoch: int
    _age: Age = field(default_factory=Age, init=False)
    _late: Latecomers = field(default_factory=Latecomers, init=False)
    _floors: FloorWriter = field(init=False)
    _ask_at: int = field(default=0, init=False)
    _is_long: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._floors = FloorWriter(claims_per_epoch=self.claims_per_epoch)
        self._ask_at = self.claims_per_epoch

    def step(
        self, connection: psycopg.Connection[Any], epochs: Epochs, *, batch_size: int
    ) -> list[JobId]:
        """Move on if it is time; then move one batch of rows, or keep them. Return those moved."""
        if not self._floors.is_known(epochs):
            # Another process was at work. Whoever writes now may have begun before any move.
            self._floors.adopt(epochs)
            self._late.close(connection, 0)
            self._late.look_again(0)
        newest = self._move(connection, epochs)
        if epochs.epoch_low < newest and self._must_keep(connection, epochs):
            self._floors.write(connection, epochs, epoch=newest)
            raise_epoch_low(connection, epoch=newest)
            self._is_long = None
            return []
        self._floors.step(connection, epochs)
        return self._restamp(connection, epochs, newest, batch_size)

    def _move(self, connection: psycopg.Connection[Any], epochs: Epochs) -> int:
        """Begin an epoch if it is time; return the newest."""
        claims = self._age.claims(epochs)
        if epochs.epoch_low < epochs.epoch or claims < self._ask_at:
            return epochs.epoch
        is_long = count_pending(connection, limit=claims) >= claims
        if is_long and not self._may_keep(epochs, claims):
            # Counting is not free either: ask again when the epoch is a good deal older.
            self._ask_at = claims * 3 // 2
            return epochs.epoch
        newest = move_epoch(connection)
        self._late.close(connection, epochs.epoch)
        self._age.restart(epochs)
        self._is_long, self._ask_at = is_long, self.claims_per_epoch
        return newest

    def _may_keep(self, epochs: Epochs, claims: int) -> bool:
        return epochs.kept < MOST_KEPT and claims >= self.claims_per_epoch * _GROWTH**epochs.kept

    def _must_keep(self, connection: psycopg.Connection[Any], epochs: Epochs) -> bool:
        if self._is_long is None:
            # Another process has begun the epoch.
            limit = self.claims_per_epoch
            self._is_long = (
                epochs.kept < MOST_KEPT and count_pending(connection, limit=limit) >= limit
            )
        return self._is_long

    def _restamp(
        self,
        connection: psycopg.Connection[Any],
        epochs: Epochs,
        newest: int,
        batch_size: int,
    ) -> list[JobId]:
        oldest = min([epochs.epoch_low, *self._late.written(connection)])
        moved = restamp_pending(connection, limit=batch_size, from_epoch=oldest)
        is_full = len(moved) >= batch_size
        if is_full and oldest < epochs.epoch_low:
            self._late.look_again(oldest)
        if epochs.epoch_low < newest and not is_full and raise_epoch_low(connection, epoch=newest):
            self._is_long = None
        return moved
