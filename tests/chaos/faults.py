"""What goes wrong when: a pure function of the seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat
from random import Random


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        at: seconds from the beginning.
        kind: what, as in ``KINDS``.
        place: which of the processes or proxies, modulo their number.
        lasts: seconds, where that says something.
    """

    at: float
    kind: str
    place: int
    lasts: float

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.kind} #{self.place} for {self.lasts:.1f} s"


@dataclass(frozen=True, slots=True)
class Kind:
    """How often something goes wrong, in each hand of cards, and for how long."""

    cards: int
    shortest: float = 0.0
    longest: float = 0.0


#: Longer than the lease of tests.chaos.settings.
PAST_THE_LEASE = 3.5

KINDS = {
    "kill a worker": Kind(3),
    "stop a worker past its lease": Kind(3, PAST_THE_LEASE, 7.0),
    "ask a worker to end": Kind(2),
    "ask a worker to end, twice": Kind(1, 0.1, 1.0),
    "kill a child": Kind(2),
    "kill maintenance": Kind(1),
    "stop maintenance": Kind(1, 1.0, 6.0),
    "kill a producer": Kind(1),
    "reset connections": Kind(3),
    "black hole": Kind(2, 1.0, 6.0),
    "latency": Kind(2, 1.0, 4.0),
    "lose answers": Kind(2, 0.2, 1.0),
    "terminate backends": Kind(2),
    "restart the server at once": Kind(1, 0.0, 1.5),
    "pin the horizon": Kind(1, 4.0, 8.0),
    "lock jobs": Kind(2, 0.5, 2.0),
    "lock configuration": Kind(1, 0.5, 2.0),
    "lock history": Kind(1, 0.5, 1.5),
    "cancel jobs": Kind(2),
    "redrive jobs": Kind(1),
    "begin an epoch": Kind(1),
    "pause a queue": Kind(1, 0.5, 2.0),
}

#: Seconds between two faults.
PAUSE = (0.2, 1.0)


def schedule(seed: int, seconds: float, kinds: dict[str, Kind] | None = None) -> list[Fault]:
    """Return the faults of a run, in order.

    They are dealt from shuffled hands, in which each kind is as often as ``KINDS`` says: a run
    of 20 s has had nearly all of them.

    Args:
        seed: of the shuffling; the same one gives the same faults.
        seconds: of the run.
        kinds: instead of ``KINDS``.
    """
    random, kinds = Random(seed), kinds or KINDS
    deck = list(chain.from_iterable(repeat(name, kind.cards) for name, kind in kinds.items()))
    faults: list[Fault] = []
    hand: list[str] = []
    at = random.uniform(*PAUSE)
    while at < seconds:
        if not hand:
            hand = random.sample(deck, len(deck))
        name = hand.pop()
        lasts = random.uniform(kinds[name].shortest, kinds[name].longest)
        faults.append(Fault(round(at, 3), name, random.randrange(1000), round(lasts, 3)))
        at += random.uniform(*PAUSE)
    return faults
