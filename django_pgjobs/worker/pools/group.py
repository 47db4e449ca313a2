"""All pools of a worker, as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from ..attempts import Attempt
from ..timeouts import DeadlineWatch
from .pool import Pool

_pool_of: Final = attrgetter("pool")


class PoolGroup:
    """Hands each attempt to the pool that it names.

    Args:
        pools: by name.
        watch: of the timeouts in them; it ends with them.
    """

    def __init__(self, pools: Mapping[str, Pool], watch: DeadlineWatch) -> None:
        self._pools = pools
        self._watch = watch

    @property
    def is_busy(self) -> bool:
        """True while a handler runs in any pool."""
        return any(pool.is_busy for pool in self)

    def start(self) -> None:
        """Get ready. Called once, before anything else."""
        for pool in self:
            pool.start()

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, those of each pool in this order."""
        for name, group in groupby(sorted(attempts, key=_pool_of), key=_pool_of):
            self._pools[name].submit(list(group))

    def take_back(self) -> list[Attempt]:
        """Begin nothing more; return the attempts that have not begun."""
        return [attempt for pool in self for attempt in pool.take_back()]

    def take_back_ahead(self, patience: float) -> list[Attempt]:
        """Return what waits behind handlers that take long; see ``Pool``."""
        return [attempt for pool in self for attempt in pool.take_back_ahead(patience)]

    def interrupt(self, attempt: Attempt) -> None:
        """Stop a handler whose work is not wanted any more, as far as its pool can."""
        self._pools[attempt.pool].interrupt(attempt)

    def stop(self) -> None:
        """End what runs handlers."""
        for pool in self:
            pool.stop()
        self._watch.stop()

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())
