"""Return the jobs of workers that have died."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

import psycopg

from .. import signals
from ..store.maintain import grant_grace, read_clock, reap_leases
from .service import Report

#: The reaper was away, or the clock stepped, when its own time and the server's differ by more
#: than this part of a lease.
_PATIENCE: Final = 0.5


@dataclass(slots=True, kw_only=True)
class Reaper:
    """Ends attempts whose lease has expired.

    An expired lease proves that a worker is gone only if the worker could have renewed it.
    After a time in which it perhaps could not (the server was just started, the reaper itself was
    away or met an error, a clock stepped) every running lease first gets one lease of grace;
    otherwise a restart of the server would run everything in flight twice.

    Args:
        lease: how long a lease lasts.
        interval: between two runs.
        backoff_base: see sql/maintain/reap_leases.sql.
        backoff_cap: see there.
    """

    lease: timedelta
    interval: timedelta
    backoff_base: timedelta
    backoff_cap: timedelta
    name: str = "reaper"
    _last: tuple[datetime, float] | None = field(default=None, init=False)

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Reap one batch; or grant grace instead, and reap nothing."""
        last, self._last = self._last, None
        clock = read_clock(connection)
        began = monotonic()
        if last is None:
            is_trusted = clock.uptime > self.lease
        else:
            is_trusted = not _has_gap(last, (clock.now, began), self.lease, self.interval)
        if not is_trusted:
            extended = grant_grace(connection, grace=self.lease)
            self._last = (clock.now, began)
            return Report(notes={"grace": len(extended)})
        reaped = reap_leases(
            connection,
            limit=batch_size,
            backoff_base=self.backoff_base,
            backoff_cap=self.backoff_cap,
        )
        for attempt in reaped:
            signals.attempt_lost.send_robust(type(self), attempt=attempt)
        # Only a run that has succeeded shows that there was no outage.
        self._last = (clock.now, began)
        return Report(
            touched=[attempt.id for attempt in reaped], is_full=len(reaped) >= batch_size
        )


def _has_gap(
    last: tuple[datetime, float],
    this: tuple[datetime, float],
    lease: timedelta,
    interval: timedelta,
) -> bool:
    """Say whether leases may have run out without their workers' doing.

    Args:
        last: the server's clock and this process's monotonic one, at the last run.
        this: both now.
        lease: how long a lease lasts.
        interval: between two runs.
    """
    by_server = (this[0] - last[0]).total_seconds()
    by_process = this[1] - last[1]
    patience = lease.total_seconds() * _PATIENCE
    was_away = by_process > interval.total_seconds() + patience
    has_stepped = abs(by_server - by_process) > patience
    return was_away or has_stepped
