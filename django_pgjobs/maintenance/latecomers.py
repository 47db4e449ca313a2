"""Transactions that may still write into an epoch that is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from ..store.epochs import list_writers


@dataclass(slots=True)
class _Closing:
    """An epoch that is over, and who may still write into it and all older ones."""

    epoch: int
    writers: frozenset[str]


@dataclass(slots=True)
class Latecomers:
    """Says which old epochs are worth looking through.

    An old epoch is full of dead entries and costs much to look through, so that is done only
    when a transaction has ended that may have written into it.
    """

    _closings: list[_Closing] = field(default_factory=list, init=False)

    def close(self, connection: psycopg.Connection[Any], epoch: int) -> None:
        """Remember who may still write into ``epoch``, which is not the newest any more."""
        writers = list_writers(connection)
        if writers:
            self._closings.append(_Closing(epoch=epoch, writers=writers))

    def look_again(self, epoch: int) -> None:
        """Name ``epoch`` the next time, whoever has ended."""
        self._closings.append(_Closing(epoch=epoch, writers=_ANYBODY))

    def written(self, connection: psycopg.Connection[Any]) -> list[int]:
        """Return the epochs into which a transaction that has ended may have written."""
        if not self._closings:
            return []
        writers = list_writers(connection)
        written = []
        for closing in self._closings:
            remaining = closing.writers & writers
            if remaining != closing.writers:
                written.append(closing.epoch)
            closing.writers = remaining
        self._closings = [closing for closing in self._closings if closing.writers]
        return written


#: No transaction has this id, so it has always just ended.
_ANYBODY: Final = frozenset({"anybody"})
