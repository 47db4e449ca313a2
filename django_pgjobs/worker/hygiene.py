"""Leave nothing of a handler on the connections of its thread."""

from __future__ import annotations

import logging

from django.db import connections

logger = logging.getLogger("django_pgjobs.worker")


def clean_connections() -> None:
    """Reset or close this thread's connections, as Django does after a request.

    What a transaction did that was left open is undone.
    """
    try:
        # In one pass: Django's own close_old_connections and reset_queries are two more.
        for connection in connections.all(initialized_only=True):
            connection.queries_log.clear()
            if connection.connection is None:
                # Asking it for anything would connect.
                continue
            if connection.in_atomic_block or not connection.autocommit:
                # Within a block, close() would keep the closed connection for its end.
                connection.in_atomic_block = connection.closed_in_transaction = False
                connection.close()
            connection.close_if_unusable_or_obsolete()
    except Exception:
        logger.exception("Cleaning up after a handler failed")
