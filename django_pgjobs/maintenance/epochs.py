"""Keep the indexes of jobs_active short while something holds back vacuum.

A transaction that somebody forgot keeps dead rows from being removed, and with them their
entries at the front of every index. A new epoch lets claims start behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.epochs import Epochs, read_epochs
from .pending_epochs import PendingEpochs
from .running_epochs import RunningEpochs
from .service import Report
from .waiting_floor import WaitingFloor

#: Claims after which a pinned horizon is worth a new epoch.
CLAIMS_PER_EPOCH: Final = 8_000


@dataclass(slots=True, kw_only=True)
class EpochKeeper:
    """Keeps the indexes of running, pending and waiting rows short.

    What a process knows of transactions that may still write into old epochs is true only as
    long as no other process moves any. One that finds them moved begins anew, as if it had just
    been started.

    Args:
        interval: between two runs.
        claims_per_epoch: dead entries to put up with.
    """

    interval: timedelta = timedelta(milliseconds=250)
    claims_per_epoch: int = CLAIMS_PER_EPOCH
    name: str = "epochs"
    _running: RunningEpochs = field(init=False)
    _pending: PendingEpochs = field(init=False)
    _waiting: WaitingFloor = field(init=False)
    _left: tuple[int, ...] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._running = RunningEpochs(claims_per_epoch=self.claims_per_epoch)
        self._pending = PendingEpochs(claims_per_epoch=self.claims_per_epoch)
        self._waiting = WaitingFloor(claims_per_epoch=self.claims_per_epoch)

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Begin epochs if it is time, then move one batch of what is left in old ones."""
        epochs = read_epochs(connection)
        if self._left is not None and self._left != _where(epochs):
            self.__post_init__()
        running = self._running.step(connection, epochs, batch_size=batch_size)
        pending = self._pending.step(connection, epochs, batch_size=batch_size)
        self._waiting.step(connection, epochs)
        self._left = _where(read_epochs(connection))
        return Report(
            touched=[*running, *pending],
            is_full=batch_size in {len(running), len(pending)},
        )


def _where(epochs: Epochs) -> tuple[int, ...]:
    """Return where every epoch and floor stands: it changes when somebody moves one."""
    return (
        epochs.epoch,
        epochs.epoch_low,
        epochs.running_epoch,
        epochs.running_epoch_low,
        epochs.floors,
        epochs.waiting_floor,
    )
