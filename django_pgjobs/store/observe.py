"""What machines want to know about the queues."""

from __future__ import annotations

from .execute import Executor, fetch_values


def count_pending(connection: Executor, *, limit: int) -> int:
    """Return how many jobs are pending, at most ``limit``. See sql/observe/count_pending.sql."""
    (pending,) = fetch_values(connection, "observe/count_pending", {"limit": limit})
    return int(pending)
