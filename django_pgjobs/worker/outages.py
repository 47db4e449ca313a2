"""What a loop of the worker says while it cannot reach the server: not much."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import psycopg

from .retrying import describe

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds between two lines of one loop.
SAY_EVERY: Final = 10.0


@dataclass(slots=True)
class Outage:
    """Counts the failures of one loop since it worked last, and logs some of them.

    Args:
        complaint: what fails, and what is done about it.
    """

    complaint: str
    failures: int = 0
    _say_at: float = field(default=0.0, init=False)
    _is_said: bool = field(default=False, init=False)

    def note(self, error: psycopg.Error) -> int:
        """Count a failure; return how many there were in a row."""
        self.failures += 1
        if monotonic() >= self._say_at:
            logger.warning("%s: %s failures=%s", self.complaint, describe(error), self.failures)
            self._say_at = monotonic() + SAY_EVERY
            self._is_said = True
        return self.failures

    def end(self) -> None:
        """It works again."""
        if self._is_said:
            logger.info("%s: it works again, failures=%s", self.complaint, self.failures)
        self.failures = 0
        self._is_said = False
