"""Tell the project, whatever its receivers do.

Signals catch ``Exception`` of their receivers. That leaves SystemExit and its like, and what a log
handler of the project's raises while an error is logged: neither may end a thread of the worker,
or lose an outcome.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from django.dispatch import Signal

logger = logging.getLogger("django_pgjobs.worker")


def tell(signal: Signal, sender: object, **named: Any) -> None:
    """Call the receivers of a signal. Never raises."""
    if not signal.receivers:
        return
    try:
        signal.send_robust(sender, **named)
    except BaseException:
        _complain()


async def atell(signal: Signal, sender: object, **named: Any) -> None:
    """Call the receivers of a signal; those defined with ``def`` in a thread.

    Raises:
        CancelledError: the task was cancelled meanwhile.
    """
    try:
        await signal.asend_robust(sender, **named)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException:
        _complain()


def _complain() -> None:
    with suppress(BaseException):
        logger.exception("A receiver of a signal has raised what is no Exception")
