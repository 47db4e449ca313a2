"""Make waiting jobs pending, and expire those that came too late."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg

from ..store.claim import stage_jobs
from ..store.maintain import expire_jobs
from .service import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Stager:
    """Stages due jobs. Workers do so too; this one serves when all of them are busy."""

    interval: timedelta = timedelta(seconds=1)
    name: str = "stager"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Stage one batch."""
        staged = stage_jobs(connection, limit=batch_size)
        return Report(
            notes={"staged": staged.staged} if staged.staged else None,
            is_full=staged.staged >= batch_size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expirer:
    """Cancels jobs that have not started by their ``expires_at``."""

    interval: timedelta = timedelta(seconds=10)
    name: str = "expirer"

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Expire one batch."""
        expired = expire_jobs(connection, limit=batch_size)
        return Report(touched=expired, is_full=len(expired) >= batch_size)
