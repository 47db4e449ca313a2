"""Notice a thread that hangs.

A thread that dies is noticed by its death. One that hangs is not: in a receiver of the project's,
or in a log handler that waits for somebody who reads no more. Then leases would run out under
running jobs, or be renewed for jobs whose outcome is never written, for as long as it lives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from .stacks import stack_of_thread

#: Seconds between two looks.
LOOK_EVERY: Final = 1.0


class Silence:
    """Counts the looks at a thread since it has moved.

    Not by the clock: the whole process may be stopped for a while, and nobody is to blame.

    Args:
        thread: to look at.
        turns: a number that changes whenever it moves; None while it has nothing to do.
        limit: how long it may stand still.
    """

    def __init__(
        self, thread: threading.Thread, turns: Callable[[], int | None], limit: timedelta
    ) -> None:
        self._thread = thread
        self._turns = turns
        self._limit = limit.total_seconds() / LOOK_EVERY
        self._seen: int | None = None
        self._looks = 0

    @property
    def name(self) -> str:
        """Of the thread."""
        return self._thread.name

    def is_too_long(self) -> bool:
        """Look once, and say whether it has stood still for too long."""
        turns = self._turns()
        if turns is None or turns != self._seen:
            self._seen = turns
            self._looks = 0
            return False
        self._looks += 1
        return self._looks > self._limit

    def stack(self) -> str:
        """Return where the thread is, as a traceback."""
        return stack_of_thread(self._thread.ident)
