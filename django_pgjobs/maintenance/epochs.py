"""Keep the claim index short while something holds back vacuum.

A transaction that somebody forgot keeps dead rows from being removed, and with them their
entries at the front of the claim index. A new epoch lets claims start behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.epochs import Epochs, move_epoch, raise_epoch_low, read_epochs, restamp_jobs
from ..store.observe import count_pending
from .service import Report

#: Claims after which a pinned horizon is worth a new epoch.
CLAIMS_PER_EPOCH: Final = 20_000


@dataclass(slots=True, kw_only=True)
class EpochKeeper:
    """Begins new epochs, and moves what is left in old ones.

    Moving a backlog to a new epoch costs as much as the backlog is long. So that it pays,
    an epoch lasts until as many jobs have been claimed in it as are pending.

    Args:
        interval: between two runs.
        claims_per_epoch: dead entries to put up with.
    """

    interval: timedelta = timedelta(seconds=1)
    claims_per_epoch: int = CLAIMS_PER_EPOCH
    name: str = "epochs"
    _begun: Epochs | None = field(default=None, init=False)
    _ask_at: int = field(default=0, init=False)

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Begin an epoch if it is time, then move one batch of what is left behind."""
        epochs = read_epochs(connection)
        newest = epochs.epoch
        if self._begun is None or not is_pinned(self._begun, epochs):
            self._begin(epochs)
        elif self._is_time(connection, self._begun, epochs):
            newest = move_epoch(connection)
            self._begin(epochs)
        moved = restamp_jobs(connection, limit=batch_size)
        if epochs.epoch_low < newest and len(moved) < batch_size:
            raise_epoch_low(connection, epoch=newest)
        return Report(touched=moved, is_full=len(moved) >= batch_size)

    def _begin(self, epochs: Epochs) -> None:
        self._begun = epochs
        self._ask_at = self.claims_per_epoch

    def _is_time(self, connection: psycopg.Connection[Any], begun: Epochs, epochs: Epochs) -> bool:
        claims = epochs.claims - begun.claims
        if epochs.epoch_low != epochs.epoch or claims < self._ask_at:
            return False
        if count_pending(connection, limit=claims) < claims:
            return True
        # Counting is not free either: ask again when the epoch is a good deal older.
        self._ask_at = claims * 3 // 2
        return False


def is_pinned(begun: Epochs, now: Epochs) -> bool:
    """Say whether something older than ``begun`` still holds back vacuum.

    Args:
        begun: how things stood when counting began.
        now: how they stand.
    """
    return now.oldest_xid <= begun.next_xid and now.claims >= begun.claims
