"""How much to claim ahead."""

from __future__ import annotations

from typing import Final

#: Seconds of work to have in hand beyond what is running: enough to bridge a claim, too
#: little to hold back jobs that another worker could run.
AHEAD: Final = 0.075

#: Seconds that jobs may wait behind handlers that take longer than was thought; then they are
#: given back, for another worker to run. Long, compared with AHEAD: on a busy machine every job
#: takes longer now and then.
WAIT_AT_MOST: Final = 1.0

#: Weight of the newest run in the average.
_NEWEST: Final = 0.05

#: Most jobs in hand, whatever their speed.
MOST_IN_HAND: Final = 2_000


class RunTime:
    """The moving average of the handlers' run times.

    Written without a lock: a lost update of an average does no harm.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None

    def note(self, seconds: float) -> None:
        """Take one run into the average."""
        if self.seconds is None:
            self.seconds = seconds
        else:
            self.seconds += _NEWEST * (seconds - self.seconds)

    def note_at_least(self, seconds: float) -> None:
        """Raise the average to what is known of runs that have not ended."""
        self.seconds = max(self.seconds or 0.0, seconds)


def jobs_in_hand(concurrency: int, seconds: float | None) -> int:
    """Return how many jobs a worker should have in hand, running ones included.

    Args:
        concurrency: how many it runs at a time.
        seconds: average run time, or None while nothing is known. Nothing is claimed ahead then,
            nor of jobs so long that what waits for one would be given back.
    """
    if seconds is None or seconds >= WAIT_AT_MOST:
        return concurrency
    ahead = concurrency * AHEAD / max(seconds, 1e-6)
    return int(min(concurrency + ahead, max(MOST_IN_HAND, concurrency)))
