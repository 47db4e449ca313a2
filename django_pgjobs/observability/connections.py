"""Whether there are connections left for a worker."""

from __future__ import annotations

from collections.abc import Iterable

from ..store.observe import ConnectionLimit

_LIMITS = {
    "server": "max_connections, less what is reserved for superusers",
    "database": "the CONNECTION LIMIT of the database",
    "role": "the CONNECTION LIMIT of the role",
}


def explain_shortage(needed: int, limits: Iterable[ConnectionLimit]) -> list[str]:
    """Return a sentence for each limit that a worker may come up against.

    Args:
        needed: connections that it has at most.
        limits: that hold for it.
    """
    return [
        f"The worker needs up to {needed} connections, but {_LIMITS[limit.holder]} allows "
        f"{limit.allowed}, and {limit.in_use} are in use. Give it less to do at a time, raise the "
        "limit, or use a pooler."
        for limit in limits
        if needed > limit.allowed - limit.in_use
    ]
