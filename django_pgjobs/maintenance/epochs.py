"""Keep the claim index short while something holds back vacuum.

A transaction that somebody forgot keeps dead rows from being removed, and with them their
entries at the front of the claim index. A new epoch lets claims start behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.epochs import (
    Epochs,
    list_writers,
    move_epoch,
    raise_epoch_low,
    read_epochs,
    restamp_jobs,
)
from ..store.observe import count_pending
from .service import Report

#: Claims after which a pinned horizon is worth a new epoch.
CLAIMS_PER_EPOCH: Final = 8_000


@dataclass(slots=True)
class Closing:
    """An epoch that is over, and the transactions that may still write into it.

    Attributes:
        epoch: this and all older ones.
        writers: virtual transaction ids.
    """

    epoch: int
    writers: frozenset[str]


@dataclass(slots=True, kw_only=True)
class EpochKeeper:
    """Begins new epochs, and moves what is left in old ones.

    Moving a backlog to a new epoch costs as much as the backlog is long. So that it pays,
    an epoch lasts until as many jobs have been claimed in it as are pending.

    An old epoch is full of dead entries and costs much to look through, so that is done only
    when there can be something: while claims still look at it, and when a transaction that may
    have written into it has ended. A process that has just begun knows nothing of earlier moves
    and looks through all.

    Args:
        interval: between two runs.
        claims_per_epoch: dead entries to put up with.
    """

    interval: timedelta = timedelta(milliseconds=250)
    claims_per_epoch: int = CLAIMS_PER_EPOCH
    name: str = "epochs"
    _begun: Epochs | None = field(default=None, init=False)
    _ask_at: int = field(default=0, init=False)
    _closing: list[Closing] = field(default_factory=list, init=False)

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Begin an epoch if it is time, then move one batch of what is left behind."""
        epochs = read_epochs(connection)
        newest = epochs.epoch
        if self._begun is None:
            # Whoever writes now may have begun before any earlier move.
            self._close(connection, 0)
            self._begin(epochs)
            oldest = 0
        else:
            if not is_pinned(self._begun, epochs):
                self._begin(epochs)
            elif self._is_time(connection, self._begun, epochs):
                newest = move_epoch(connection)
                self._close(connection, epochs.epoch)
                self._begin(epochs)
            oldest = min([epochs.epoch_low, *self._written(connection)])
        moved = restamp_jobs(connection, limit=batch_size, from_epoch=oldest)
        is_full = len(moved) >= batch_size
        if is_full and oldest < epochs.epoch_low:
            # Not all of it: look again, whoever has ended.
            self._closing.append(Closing(epoch=oldest, writers=_ANYBODY))
        if epochs.epoch_low < newest and not is_full:
            raise_epoch_low(connection, epoch=newest)
        return Report(touched=moved, is_full=is_full)

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

    def _close(self, connection: psycopg.Connection[Any], epoch: int) -> None:
        """Remember who may still write into ``epoch``, which is not the newest any more."""
        writers = list_writers(connection)
        if writers:
            self._closing.append(Closing(epoch=epoch, writers=writers))

    def _written(self, connection: psycopg.Connection[Any]) -> list[int]:
        """Return the epochs into which a transaction that has ended may have written."""
        if not self._closing:
            return []
        writers = list_writers(connection)
        written = []
        for closing in self._closing:
            remaining = closing.writers & writers
            if remaining != closing.writers:
                written.append(closing.epoch)
            closing.writers = remaining
        self._closing = [closing for closing in self._closing if closing.writers]
        return written


#: No transaction has this id, so it has always just ended.
_ANYBODY: Final = frozenset({"anybody"})


def is_pinned(begun: Epochs, now: Epochs) -> bool:
    """Say whether something older than ``begun`` still holds back vacuum.

    Args:
        begun: how things stood when counting began.
        now: how they stand.
    """
    return now.oldest_xid <= begun.next_xid and now.claims >= begun.claims
