"""Leave nothing of a handler on the connections of a thread."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from .queries import LEFT_STATE
from .telling import complaining

_FAILED: Final = "Cleaning up after a handler failed"


class _Thread(threading.local):
    """What is known of this thread.

    Attributes:
        is_untouched: it has never had a connection. To look for one takes as long as a small job.
    """

    # None until it was asked for: the thread may have connected before anybody here was told.
    is_untouched: bool | None = None

    def note_connection(self, **kwargs: Any) -> None:
        """Receive ``connection_created``, which is sent in the thread that connects."""
        self.is_untouched = False


_thread: Final = _Thread()
connection_created.connect(_thread.note_connection, weak=False, dispatch_uid=__name__)


def clean_connections() -> None:
    """Reset or close this thread's connections, as Django does after a request.

    What a transaction did that was left open is undone.
    """
    if _thread.is_untouched:
        return
    with complaining(_FAILED):
        if _thread.is_untouched is None:
            _thread.is_untouched = not any(
                connection.connection for connection in connections.all(initialized_only=True)
            )
        # In one pass: Django's own close_old_connections and reset_queries are two more.
        for connection in connections.all(initialized_only=True):
            connection.queries_log.clear()
            if connection.connection is None:
                # Asking it for anything would connect.
                continue
            _end_if_marked(connection)
            if connection.in_atomic_block or not connection.autocommit:
                _drop(connection)
            connection.close_if_unusable_or_obsolete()


def close_connections() -> None:
    """Close this thread's connections. What a transaction did that was left open is undone."""
    with complaining(_FAILED):
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None:
                _end_if_marked(connection)
            _drop(connection)


def needs_cleaning(connection: BaseDatabaseWrapper) -> bool:
    """Say whether ``clean_connections`` in the thread of ``connection`` would change it.

    May be asked in any thread.
    """
    if connection.connection is None:
        return False
    is_obsolete = connection.close_at is not None and monotonic() >= connection.close_at
    # Not in the stubs, as other attributes of these.
    wrapper: Any = connection
    was_checked = wrapper.health_check_enabled and wrapper.health_check_done
    is_left_open = connection.in_atomic_block or not connection.autocommit
    return is_obsolete or was_checked or is_left_open or connection.errors_occurred


def _end_if_marked(connection: BaseDatabaseWrapper) -> None:
    """End a session in which a query has left something.

    To close Django's connection is not enough where that lends it from a pool: the pool would hand
    the session to the next job as it is.
    """
    if connection.close_at == LEFT_STATE:
        connection.connection.close()


def _drop(connection: BaseDatabaseWrapper) -> None:
    # Within a block, close() would keep the closed connection for its end.
    connection.in_atomic_block = connection.closed_in_transaction = False
    connection.close()
