"""Forget workers that have not been heard of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from ..store.maintain import forget_lost_workers
from .service import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceKeeper:
    """Drops the rows of workers that have been silent for two leases.

    What they held has come back through their leases by then.

    Args:
        lease: how long a lease lasts.
        interval: between two runs.
    """

    lease: timedelta
    interval: timedelta = timedelta(seconds=30)
    name: str = "presence"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Forget every worker that is lost."""
        return Report(touched=forget_lost_workers(connection, silence=2 * self.lease))
