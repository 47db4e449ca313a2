"""Hear that there may be work, on a connection of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from random import Random
from typing import Final

import psycopg
from psycopg import sql

from ..store.connecting import Session
from .retrying import describe, pause_before

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds between two looks whether to stop.
_TURN: Final = 1.0


class Listener:
    """A thread that calls ``wake`` for each notification on the worker's own channel.

    It never sits in a transaction: a listener that did would fill the server's notification
    queue. After every (re)connect it wakes the worker once, for what was missed.

    Args:
        session: a connection of its own.
        channel: a plain name.
        wake: called in this thread; must return at once.
        random: source of jitter.
    """

    def __init__(
        self, *, session: Session, channel: str, wake: Callable[[], None], random: Random
    ) -> None:
        self._session = session
        self._channel = channel
        self._wake = wake
        self._random = random
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgjobs-listener", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(2 * _TURN)

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._listen()
                failures = 0
            except psycopg.Error as error:
                failures += 1
                logger.warning("Listening failed, will retry: %s", describe(error))
                self._stopped.wait(pause_before(failures, self._random))
        self._session.close()

    def _listen(self) -> None:
        connection = self._session.connection
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._wake()
        while not self._stopped.is_set():
            for _ in connection.notifies(timeout=_TURN, stop_after=1):
                self._wake()
