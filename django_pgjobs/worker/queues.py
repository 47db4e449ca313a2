"""Which queue to claim from next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final

from ..definitions.definition import queue_problems

#: Weight of a queue that is served without a weight of its own.
DEFAULT_WEIGHT: Final = 1

#: Largest weight of a queue.
MOST_WEIGHT: Final = 1000

#: Seconds for which a queue that had nothing is tried after the others. To look into it takes as
#: long as to claim dozens of jobs, and a busy worker has more work than that in hand.
EMPTY_FOR: Final = 0.05


class QueueOrder:
    """Serves queues in proportion to their weights, or strictly one before another.

    Stride scheduling: each queue has a position that moves by jobs / weight when jobs are
    taken from it, and the queue that is furthest behind goes first. A queue that was
    empty gets no credit for that time. See Waldspurger and Weihl, "Stride Scheduling:
    Deterministic Proportional-Share Resource Management", MIT, 1995.

    Args:
        weights: of each queue, above zero. For strict order their values do not matter.
        is_strict: always try the queues in the order given.
    """

    def __init__(self, weights: Mapping[str, int], *, is_strict: bool = False) -> None:
        self._weights = dict(weights)
        self._is_strict = is_strict
        self._positions = dict.fromkeys(self._weights, 0.0)
        self._empty_until = dict.fromkeys(self._weights, 0.0)
        self._preferred: str | None = None

    @property
    def names(self) -> list[str]:
        """The queues, in the order given."""
        return list(self._weights)

    def candidates(self) -> list[str]:
        """Return the queues in the order in which to try them.

        All of them: those that had nothing a moment ago come last.
        """
        now = monotonic()
        if self._is_strict:
            return sorted(self._weights, key=lambda queue: now < self._empty_until[queue])
        preferred, self._preferred = self._preferred, None
        return sorted(
            self._weights,
            key=lambda queue: (
                queue != preferred,
                now < self._empty_until[queue],
                self._positions[queue],
            ),
        )

    def prefer(self, queue: str) -> None:
        """Try ``queue`` first, once, where the order is not strict. For any thread."""
        self._preferred = queue

    def charge(self, queue: str, jobs: int) -> None:
        """Note that ``jobs`` were taken from ``queue``."""
        if self._empty_until[queue]:
            self._empty_until[queue] = 0.0
            self.pass_over(queue)
        self._positions[queue] += jobs / self._weights[queue]

    def note_empty(self, queue: str) -> None:
        """Note that ``queue`` had nothing."""
        self._empty_until[queue] = monotonic() + EMPTY_FOR
        self.pass_over(queue)

    def pass_over(self, queue: str) -> None:
        """Note that ``queue`` was not served: it may not save up its turns."""
        ahead = [position for name, position in self._positions.items() if name != queue]
        if ahead:
            self._positions[queue] = max(self._positions[queue], min(ahead))

    def add(self, queues: Iterable[str]) -> None:
        """Serve further queues, with the default weight."""
        start = min(self._positions.values(), default=0.0)
        for queue in queues:
            if queue not in self._weights:
                self._weights[queue] = DEFAULT_WEIGHT
                self._positions[queue] = start
                self._empty_until[queue] = 0.0


def undeclared(queues: Iterable[str], declared: Iterable[str]) -> list[str]:
    """Return the ``queues`` that no job declares: perhaps a slip of the pen."""
    known = set(declared)
    return [queue for queue in queues if queue not in known]


def parse_queues(text: str) -> dict[str, int]:
    """Return the weights of ``critical=5,default=3,bulk``.

    Raises:
        ValueError: that is not a list of queues.
    """
    weights: dict[str, int] = {}
    for part in text.split(","):
        name, equals, weight = part.strip().partition("=")
        for problem in queue_problems(name):
            raise ValueError(problem)
        if name in weights:
            raise ValueError(f"The queue {name!r} is named twice in {text!r}.")
        if equals and not (
            weight.isascii() and weight.isdigit() and 1 <= int(weight) <= MOST_WEIGHT
        ):
            raise ValueError(
                f"The weight of queue {name!r} must be a whole number from 1 to {MOST_WEIGHT}, "
                f"not {weight!r}."
            )
        weights[name] = int(weight) if equals else DEFAULT_WEIGHT
    return weights
