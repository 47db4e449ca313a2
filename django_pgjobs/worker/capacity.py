"""How many jobs a worker has room for, in each pool and so from each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

from .measuring import AHEAD, RunTime, jobs_in_hand


@dataclass(slots=True)
class Load:
    """What a pool has to do.

    Attributes:
        size: handlers that run at a time.
        run_time: how long they take.
        in_hand: jobs claimed for it whose outcome is not written yet.
        moved_at: when one last came to a free place, or was let go of.
    """

    size: int
    run_time: RunTime = field(default_factory=RunTime)
    in_hand: int = 0
    moved_at: float = 0.0

    def add(self, jobs: int) -> None:
        """Take jobs in hand."""
        if self.in_hand < self.size:
            self.moved_at = monotonic()
        self.in_hand += jobs

    def remove(self, jobs: int) -> None:
        """Let go of jobs."""
        self.in_hand -= jobs
        self.moved_at = monotonic()

    @property
    def places(self) -> int:
        """How many more jobs could begin at once."""
        return max(0, self.size - self.in_hand)

    @property
    def room(self) -> int:
        """How many more jobs to claim: none until a good part of what there was is done.

        So fast jobs are claimed many at a time. Where all places have been taken for longer than
        what is ahead should take, the average is no guide: then nothing more is claimed ahead.
        """
        if self.in_hand >= self.size and monotonic() - self.moved_at > AHEAD:
            return 0
        wanted = jobs_in_hand(self.size, self.run_time.seconds)
        refill_below = max(1, wanted - max(0, (wanted - self.size) // 2))
        return wanted - self.in_hand if self.in_hand < refill_below else 0

    @property
    def is_ahead(self) -> bool:
        """True when some of what is in hand has to wait."""
        return self.in_hand > self.size


class Capacity:
    """The loads of all pools, and which of them a queue's jobs go to.

    A claim is of one queue and cannot choose among its jobs. So a queue has room when each
    pool has that its jobs go to: else jobs that another worker could run would wait here.

    Args:
        sizes: handlers that run at a time, of each pool.
        pools_of_queues: which pools the jobs of a queue are known to go to.
    """

    def __init__(
        self, sizes: Mapping[str, int], pools_of_queues: Iterable[tuple[str, str]]
    ) -> None:
        self.loads = {name: Load(size) for name, size in sizes.items()}
        self._pools = defaultdict[str, set[str]](set)
        for queue, pool in pools_of_queues:
            self.note_pool(queue, pool)
        # Those that any declared job goes to; a pool without one must not hold up the others.
        self._declared = set().union(*self._pools.values()) or set(self.loads)

    def note_pool(self, queue: str, pool: str) -> None:
        """Note that jobs of ``queue`` go to ``pool``."""
        if pool in self.loads:
            self._pools[queue].add(pool)

    @property
    def is_ahead(self) -> bool:
        """True when some of what is in hand has to wait."""
        return any(load.is_ahead for load in self.loads.values())

    def room(self, queue: str) -> int:
        """Return how many jobs to claim from ``queue``."""
        return min((load.room for load in self._loads_of(queue)), default=0)

    def places(self, queue: str) -> int:
        """Return how many jobs of ``queue`` could begin at once."""
        return min((load.places for load in self._loads_of(queue)), default=0)

    def _loads_of(self, queue: str) -> Iterator[Load]:
        # Of a queue that nobody declared a job for, any job may come.
        return (self.loads[pool] for pool in self._pools.get(queue) or self._declared)
