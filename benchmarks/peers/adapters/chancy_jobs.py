"""The jobs of Chancy, which its worker imports by name."""

from __future__ import annotations

from chancy import job

from ..probe import note_start


@job()
async def nothing() -> None:
    """Do nothing."""


@job()
async def stamp(*, sent_at: float) -> None:
    """Note how long the job waited."""
    note_start(sent_at)
