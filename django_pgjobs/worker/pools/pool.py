"""What every pool can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...store.finish import Ending, Success
from ..attempts import Attempt
from ..recording import Recorded

#: Takes the outcome of an attempt, in any thread. Of an attempt only the first counts.
Finish = Callable[[Attempt, Success | Ending | Recorded], None]


class Pool(Protocol):
    """Runs handlers, ``size`` at a time, and reports the outcome of each.

    ::

        submit ──> waiting ──> running ──> finish(attempt, outcome)
                      │
                      └── take_back, take_back_ahead

    An attempt that was submitted is finished once, or taken back. All methods may be called in
    any thread, and return at once unless they say otherwise.
    """

    @property
    def size(self) -> int:
        """Handlers that run at a time."""

    @property
    def is_busy(self) -> bool:
        """True while a handler runs."""

    def start(self) -> None:
        """Get ready. Called once, before anything else."""

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts, in this order, as places become free."""

    def take_back(self) -> list[Attempt]:
        """Return the attempts that have not begun, and forget them: the worker stops."""

    def take_back_ahead(self, patience: float) -> list[Attempt]:
        """Return what waits for a place behind handlers that take long, and forget it.

        Args:
            patience: seconds; nothing is returned if an attempt has begun within them.
        """

    def interrupt(self, attempt: Attempt) -> None:
        """Stop a handler whose work is not wanted any more, as far as this pool can.

        Its context says so already. The attempt may not run here, or have ended. May be called
        again and again.
        """

    def stop(self) -> None:
        """End what runs handlers.

        Handlers that can be killed are dead when it returns; it may wait a moment for that. Those
        that cannot keep running.
        """
