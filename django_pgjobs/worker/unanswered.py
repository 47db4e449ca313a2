"""Give back jobs that were claimed by a statement whose answer got lost.

Such a claim has committed, and nobody runs its jobs: the connection broke between the commit and
the answer. Nor would they come back soon, and then an attempt would have been spent. So after an
error the worker asks for attempts of its own that it does not have in hand, and asks again when
no statement of before the error can be under way any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any, Final

import psycopg

from ..states import Outcome
from ..store.claim import find_unanswered
from ..store.execute import FenceToken, WorkerId
from ..store.finish import Ending, end_attempts

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds after an error: the server gives up a statement after 30 (store/connecting.py).
_LAST_LOOK: Final = 60.0

_AT_MOST: Final = 1_000


@dataclass(slots=True, kw_only=True)
class Unanswered:
    """Looks for claims without an answer. For the thread that claims.

    Args:
        worker_id: of the worker.
        backoff_base: see sql/finish/end_attempts.sql.
        backoff_cap: see there.
    """

    worker_id: WorkerId
    backoff_base: timedelta
    backoff_cap: timedelta
    _look_at: list[float] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        """True when it is time to look."""
        return bool(self._look_at) and monotonic() >= self._look_at[0]

    def note_error(self) -> None:
        """A statement failed, and may have claimed all the same."""
        now = monotonic()
        self._look_at = [now, now + _LAST_LOOK]

    def give_back(
        self, connection: psycopg.Connection[Any], in_hand: Iterable[FenceToken]
    ) -> list[int]:
        """Release every attempt that is not in hand, its attempt uncounted; return the jobs.

        Args:
            connection: of the thread that claims.
            in_hand: tokens of all attempts whose outcome is not written.

        Raises:
            psycopg.Error: the server could not be asked; the look is still due.
        """
        lost = find_unanswered(
            connection, worker_id=self.worker_id, fence_tokens=list(in_hand), limit=_AT_MOST
        )
        if lost:
            ended = end_attempts(
                connection,
                [
                    Ending(
                        id=attempt.id,
                        fence_token=attempt.fence_token,
                        outcome=Outcome.RELEASED,
                        delay=timedelta(0),
                    )
                    for attempt in lost
                ],
                worker_id=self.worker_id,
                backoff_base=self.backoff_base,
                backoff_cap=self.backoff_cap,
            )
            logger.warning(
                "jobs given back, the answer to their claim was lost: count=%s worker=%s",
                len(ended),
                self.worker_id,
            )
        if len(lost) < _AT_MOST:
            del self._look_at[:1]
        return [attempt.id for attempt in lost]
