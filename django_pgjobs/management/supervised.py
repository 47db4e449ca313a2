"""A worker under a supervisor: the first that its interpreter calls."""

from __future__ import annotations

import sys
from typing import NoReturn

import django
from django.core.management.base import CommandError


def run_supervised(number: int, lifeline: int, maintains: int, text: str) -> NoReturn:
    """Be one of a supervisor's workers. Called in a fresh interpreter.

    Args:
        number: of the worker, from 1.
        lifeline: descriptor that reads its end when the worker should stop.
        maintains: 1 to run maintenance in this process too.
        text: the options of the worker, as ``working`` writes them.
    """
    django.setup()
    # Not before the apps are ready: it knows the models.
    from .working import options_of, run_worker  # noqa: PLC0415

    try:
        run_worker(
            options_of(text), maintains=bool(maintains), lifeline=lifeline, label=f"[{number}]"
        )
    except CommandError as error:
        sys.exit(f"CommandError: {error}")
