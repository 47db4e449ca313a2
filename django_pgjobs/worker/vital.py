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
from typing import Any

logger = logging.getLogger("django_pgjobs.worker")


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


@contextmanager
def deaths_noted(on_death: Callable[[], None]) -> Iterator[None]:
    """Call ``on_death`` whenever an error ends a vital thread of this process.

    Other threads are left to the hook that was there before.
    """
    previous = threading.excepthook

    def note(death: threading.ExceptHookArgs) -> None:
        if not isinstance(death.thread, VitalThread):
            previous(death)
            return
        # First: logging may be what failed.
        on_death()
        logger.critical(
            "a thread has died of an error, so the worker stops: thread=%s",
            death.thread.name,
            exc_info=death.exc_value,
        )

    threading.excepthook = note
    try:
        yield
    finally:
        threading.excepthook = previous
