"""Threads without which a worker is of no use.

Errors that can be expected are handled in their loops. If another ends one, out of memory or
a fault of ours or of a project's own log handler, the rest of the worker would go on for ever:
renew leases of jobs that nobody runs, or sit beside a full queue. So the process ends, for its
manager to start another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

logger = logging.getLogger("django_pgjobs.worker")


#: What the worker of this process does about a death; empty while there is no worker.
_on_death: Final[list[Callable[[], None]]] = []


class VitalThread(threading.Thread):
    """A daemon thread whose death by an error ends the worker.

    Args:
        target: what it does.
        name: of the thread.
        args: of ``target``.
    """

    def __init__(
        self, target: Callable[..., object], *, name: str, args: Iterable[Any] = ()
    ) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)

    def run(self) -> None:
        """Do it.

        Not left to ``threading.excepthook``, which a handler or a library may replace, and which
        by itself keeps silent about SystemExit.
        """
        try:
            super().run()
        except BaseException:
            if not _on_death:
                raise
            # First: logging may be what failed.
            _on_death[-1]()
            logger.critical(
                "a thread has died of an error, so the worker stops: thread=%s",
                self.name,
                exc_info=True,
            )


@contextmanager
def deaths_noted(on_death: Callable[[], None]) -> Iterator[None]:
    """Call ``on_death`` whenever an error ends a vital thread of this process."""
    _on_death.append(on_death)
    try:
        yield
    finally:
        _on_death.remove(on_death)
