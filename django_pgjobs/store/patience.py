"""Connections that do not wait for ever.

The server ends a statement at its ``statement_timeout``, and TCP notices a peer that is gone.
Neither helps against one that is there and silent: a stopped process, a frozen disk, a proxy that
has forgotten about the connection. So whoever waits for an answer gives up after a while and
connects anew.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

Answer = TypeVar("Answer")


class PatientConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer in time.

    Attributes:
        patience: seconds to wait for an answer.
    """

    patience: float

    def wait(self, gen: Generator[Any, Any, Answer], *args: Any, **options: Any) -> Answer:
        """As in psycopg, but not for ever.

        Raises:
            psycopg.OperationalError: there was no answer in time.
        """
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Answer]) -> Generator[Any, Any, Answer]:
        deadline = monotonic() + self.patience
        try:
            wanted = next(gen)
            while True:
                # Nothing is ready: psycopg looks now and then, so that it can be interrupted.
                ready = yield wanted
                if not ready and monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError(
                        f"the server has not answered for {self.patience:.0f} seconds"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
