"""The tasks of ``django.tasks``."""

from __future__ import annotations

from django.tasks import task

from ..probe import note_start


@task
def nothing() -> None:
    """Do nothing."""


@task
def stamp(sent_at: float) -> None:
    """Note how long the job waited."""
    note_start(sent_at)
