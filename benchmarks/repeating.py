"""Something that is done again and again beside what is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

Step = Callable[[psycopg.Connection[Any]], None]


@contextmanager
def repeating(step: Step, url: str, *, pause: float) -> Iterator[None]:
    """Repeat ``step`` in a thread, with a connection of its own, as long as the block lasts.

    Args:
        step: called with the connection.
        url: of the database.
        pause: seconds between two steps.
    """
    stopping = threading.Event()

    def repeat() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stopping.wait(pause):
                step(connection)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
