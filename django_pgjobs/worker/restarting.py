"""How long to wait before a process that died is started again."""

from __future__ import annotations

from random import Random
from typing import Final

#: Longest wait, in seconds.
LONGEST: Final = 30.0

_FIRST: Final = 0.5


def pause_before_restart(failures: int, random: Random) -> float:
    """Return the seconds to wait: none after a healthy life, then exponential with jitter.

    Args:
        failures: that followed each other without a healthy life between them.
        random: source of jitter.
    """
    if failures == 0:
        return 0.0
    ceiling = min(LONGEST, _FIRST * 2.0 ** min(failures - 1, 10))
    return ceiling * (0.5 + random.random() / 2)
