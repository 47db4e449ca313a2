"""Tell the project, whatever its receivers do.

Signals catch ``Exception`` of their receivers. That leaves SystemExit and its like, and what a log
handler of the project's raises while an error is logged: neither may end a thread of the worker,
or lose an outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from django.dispatch import Signal

logger = logging.getLogger("django_pgjobs.worker")

_RAISED: Final = "A receiver of a signal has raised what is no Exception"


def tell(signal: Signal, sender: object, **named: Any) -> None:
    """Call the receivers of a signal. Never raises."""
    if not signal.receivers:
        return
    with complaining(_RAISED):
        signal.send_robust(sender, **named)


async def atell(signal: Signal, sender: object, **named: Any) -> None:
    """Call the receivers of a signal; those defined with ``def`` in a thread.

    Raises:
        CancelledError: the task was cancelled meanwhile.
    """
    with complaining(_RAISED, but=(asyncio.CancelledError, GeneratorExit)):
        await signal.asend_robust(sender, **named)


@contextmanager
def complaining(message: str, *, but: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Log whatever is raised in the block, and go on.

    Args:
        message: of the log.
        but: what is raised nevertheless.
    """
    try:
        yield
    except but:
        raise
    except BaseException:
        say(logging.ERROR, message, exc_info=True)


def say(level: int, message: str, *args: object, **options: Any) -> None:
    """Log, whatever the log handlers do. Never raises; takes what ``Logger.log`` does."""
    with suppress(BaseException):
        logger.log(level, message, *args, stacklevel=2, **options)
