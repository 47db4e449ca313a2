"""The heartbeat: renew leases, and hear of cancellation and loss."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any, Final

import psycopg

from ..store.connecting import Session
from ..store.execute import FenceToken, WorkerId
from ..store.finish import Renewal, check_leases, renew_leases, resolve_attempts
from ..store.maintain import forget_worker, record_worker
from .attempts import Attempt, AttemptsInHand
from .finishing import report_lost
from .outages import Outage
from .retrying import describe
from .silence import Silence
from .vital import VitalThread

logger = logging.getLogger("django_pgjobs.worker")

#: Seconds for a beat under way to end.
_LAST_BEAT: Final = 5.0


class Heartbeat:
    """A thread with a connection of its own that keeps the worker's leases alive.

    It never shares a transaction with a handler and never waits for a row lock. Between two
    beats it looks whether attempts that take long are still wanted.

    Args:
        session: a connection of its own.
        worker_id: of the worker.
        in_hand: the attempts to renew.
        lease: how long a lease lasts.
        interval: between two beats.
        look_interval: between two looks.
        queues: returns what the worker serves, for the list of workers.
        concurrency: jobs it runs at a time, for the list of workers.
        channel: on which it listens, or None.
        on_unwanted: called with each attempt whose lease is lost or whose cancellation was
            requested, and again with each beat and look until it has ended.
        on_isolation: called when the server could not be reached for a whole lease, and again
            with each beat until the worker stops.
    """

    def __init__(
        self,
        *,
        session: Session,
        worker_id: WorkerId,
        in_hand: AttemptsInHand,
        lease: timedelta,
        interval: timedelta,
        look_interval: timedelta,
        queues: Callable[[], Sequence[str]],
        concurrency: int,
        channel: str | None,
        on_unwanted: Callable[[Attempt], None],
        on_isolation: Callable[[], None],
    ) -> None:
        self._session = session
        self._worker_id = worker_id
        self._in_hand = in_hand
        self._lease = lease
        self._interval = interval.total_seconds()
        self._look_interval = look_interval.total_seconds()
        self._queues = queues
        self._concurrency = concurrency
        self._channel = channel
        self._on_unwanted = on_unwanted
        self._on_isolation = on_isolation
        self._heard_at = monotonic()
        self._beat_at = 0.0
        self._outage = Outage("The heartbeat failed, will retry")
        self._seen: frozenset[FenceToken] = frozenset()
        self._turns = 0
        self._stopped = threading.Event()
        self._thread = VitalThread(self._run, name="pgjobs-heartbeat")

    def silence(self, limit: timedelta) -> Silence:
        """Return what notices that the thread stands still for longer than ``limit``."""
        return Silence(self._thread, lambda: self._turns, limit)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and take the worker off the list. Waits a little for a beat under way."""
        self._stopped.set()
        self._thread.join(_LAST_BEAT)

    def beat(self) -> None:
        """Renew every lease in hand and record the worker.

        Raises:
            psycopg.Error: the server could not be asked.
        """
        attempts = self._in_hand.all()
        connection = self._session.connection
        began = monotonic()
        record_worker(
            connection,
            worker_id=self._worker_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            queues=self._queues(),
            concurrency=self._concurrency,
            running=len(attempts),
            channel=self._channel,
        )
        if attempts:
            self._renew(connection, attempts)
        self._heard_at = began

    def look(self) -> None:
        """Hear of loss and cancellation of attempts that were in hand at the last look, too.

        Most attempts are not, so that fast jobs cost nothing.

        Raises:
            psycopg.Error: the server could not be asked.
        """
        attempts = [attempt for attempt in self._in_hand.all() if not attempt.has_ended]
        long = [attempt for attempt in attempts if attempt.job.fence_token in self._seen]
        self._seen = frozenset(attempt.job.fence_token for attempt in attempts)
        if long:
            connection = self._session.connection
            keys = [attempt.key for attempt in long]
            self._tell(connection, long, check_leases(connection, keys, worker_id=self._worker_id))

    def _renew(self, connection: psycopg.Connection[Any], attempts: Sequence[Attempt]) -> None:
        said = {
            attempt.job.fence_token: progress
            for attempt in attempts
            if (progress := attempt.context.last_progress) is not None
        }
        renewals = renew_leases(
            connection,
            [attempt.key for attempt in attempts],
            worker_id=self._worker_id,
            lease=self._lease,
            stalled={token for token, progress in said.items() if progress.has_stalled},
            progress={token: text for token, one in said.items() if (text := one.encode())},
        )
        self._tell(connection, attempts, renewals)

    def _tell(
        self,
        connection: psycopg.Connection[Any],
        attempts: Sequence[Attempt],
        renewals: Sequence[Renewal],
    ) -> None:
        by_token = {attempt.job.fence_token: attempt for attempt in attempts}
        heard = [(by_token[renewal.fence_token], renewal) for renewal in renewals]
        # Of an attempt that has ended, the finisher finds out.
        lost = [
            attempt
            for attempt, renewal in heard
            if not (renewal.is_owned or attempt.has_ended or attempt.is_lost)
        ]
        self._report_lost(connection, lost)
        for attempt, renewal in heard:
            if renewal.is_owned and renewal.cancel_requested:
                attempt.context.cancel()
            if not attempt.has_ended and (attempt.is_lost or attempt.context.is_cancelled):
                self._on_unwanted(attempt)

    def _report_lost(
        self, connection: psycopg.Connection[Any], attempts: Sequence[Attempt]
    ) -> None:
        if not attempts:
            return
        keys = [attempt.key for attempt in attempts]
        # An atomic job records its success before this process hears of it.
        recorded = {
            attempt.id
            for attempt in resolve_attempts(connection, keys, worker_id=self._worker_id)
            if attempt.is_recorded
        }
        for attempt in attempts:
            if attempt.job.id not in recorded:
                report_lost(attempt)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._turns += 1
            try:
                if monotonic() >= self._beat_at:
                    self.beat()
                    self._beat_at = monotonic() + self._interval
                    self._outage.end()
                else:
                    self.look()
                pause = min(self._look_interval, max(0.0, self._beat_at - monotonic()))
            except psycopg.Error as error:
                # Sooner than the next beat: every lease is getting shorter.
                self._beat_at = 0.0
                pause = min(1.0, self._interval)
                self._note_outage(error)
            self._stopped.wait(pause)
        self._take_leave()

    def _note_outage(self, error: psycopg.Error) -> None:
        self._session.note_error(error)
        self._outage.note(error)
        if monotonic() - self._heard_at > self._lease.total_seconds():
            for attempt in self._in_hand.all():
                report_lost(attempt)
                self._on_unwanted(attempt)
            self._on_isolation()

    def _take_leave(self) -> None:
        try:
            forget_worker(self._session.connection, worker_id=self._worker_id)
        except psycopg.Error as error:
            logger.warning("The worker could not take itself off the list: %s", describe(error))
        self._session.close()
