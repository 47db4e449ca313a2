"""Do many things slowly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Part = TypeVar("Part")


def paced(
    parts: Iterable[Part],
    rate: float | None,
    *,
    size: Callable[[Part], int],
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Part]:
    """Yield ``parts``, waiting between two of them so that their items come at ``rate``.

    Args:
        parts: each is made when it is asked for.
        rate: items in a second; None for as fast as can be.
        size: returns how many items a part has.
        clock: seconds, of any beginning.
        wait: for so many seconds.
    """
    began, done = clock(), 0
    for part in parts:
        yield part
        done += size(part)
        ahead = done / rate - (clock() - began) if rate else 0.0
        if ahead > 0:
            wait(ahead)
