"""Hear that there may be work, on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from time import monotonic
from typing import Final

import psycopg
from psycopg import sql

from ..store.connecting import Session
from .outages import Outage
from .retrying import pause_before
from .vital import VitalThread

#: Seconds between two looks whether to stop.
_TURN: Final = 1.0

#: Seconds between two questions whether the server is still there.
_ASK_EVERY: Final = 30.0


class Listener:
    """A thread that calls ``wake`` for each notification on the worker's own channel.

    It never sits in a transaction: a listener that did would fill the server's notification
    queue. After every (re)connect it wakes the worker once, for what was missed.

    Args:
        session: a connection of its own.
        channel: a plain name.
        wake: called in this thread with the name of a queue that has work, or with an empty text;
            must return at once.
        random: source of jitter.
    """

    def __init__(
        self, *, session: Session, channel: str, wake: Callable[[str], None], random: Random
    ) -> None:
        self._session = session
        self._channel = channel
        self._wake = wake
        self._random = random
        self._outage = Outage("Listening failed, will retry")
        self._stopped = threading.Event()
        self._thread = VitalThread(self._run, name="pgjobs-listener")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(2 * _TURN)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                self._session.note_error(error)
                self._stopped.wait(pause_before(self._outage.note(error), self._random))
        self._session.close()

    def _listen(self) -> None:
        connection = self._session.connection
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._outage.end()
        self._wake("")
        ask_at = monotonic() + _ASK_EVERY
        while not self._stopped.is_set():
            for notification in connection.notifies(timeout=_TURN, stop_after=1):
                self._wake(notification.payload)
            if monotonic() >= ask_at:
                # Nothing else would tell a connection that has died in silence.
                connection.execute("SELECT 1")
                ask_at = monotonic() + _ASK_EVERY
