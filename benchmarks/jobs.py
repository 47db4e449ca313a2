"""The jobs that are measured."""

from __future__ import annotations

from time import sleep

from django_pgjobs import JobContext, job

from .peers.probe import note_start


@job
def nothing() -> None:
    """Do nothing."""


# In a queue of its own: a queue is claimed from while every pool of its jobs has room.
@job(queue="async")
async def nothing_async() -> None:
    """Do nothing, in the event loop."""


@job
def stamp(*, sent_at: float) -> None:
    """Note how long the job waited.

    Args:
        sent_at: when it was enqueued, on the machine's monotonic clock.
    """
    note_start(sent_at)


@job(queue="async")
async def stamp_async(*, sent_at: float) -> None:
    """Note how long the job waited, in the event loop.

    Args:
        sent_at: as in ``stamp``.
    """
    note_start(sent_at)


@job
def hold(context: JobContext) -> None:
    """Keep a place until the worker stops."""
    while not context.is_stopping:
        sleep(0.5)


@job
def numbered(*, number: int) -> None:
    """Do nothing with an argument.

    Args:
        number: any.
    """
