"""Which pools a worker has."""

from __future__ import annotations

from ...definitions.pools import THREADS
from .group import PoolGroup
from .threads import ThreadPool


def build_pools(*, threads: ThreadPool) -> PoolGroup:
    """Return the pools of a worker."""
    return PoolGroup({THREADS: threads})
