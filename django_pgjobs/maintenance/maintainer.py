"""Run the maintenance services: loop, leadership, errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from random import Random, SystemRandom
from time import monotonic
from typing import Final, Self

import psycopg
from psycopg import errors

from .. import signals
from ..conf import PgJobsSettings
from ..definitions.registry import Registry
from ..definitions.slots import Defaults
from ..store.connecting import Session, SessionOptions, new_process_id
from ..store.execute import read_statements
from ..store.maintain import resign_leadership, take_leadership
from .breaking import BreakerKeeper
from .epochs import EpochKeeper
from .partitions import Partitioner
from .presence import PresenceKeeper
from .reaper import Reaper
from .scheduler import Scheduler, SlotPruner
from .service import MaintenanceService
from .stager import Expirer, Stager
from .watching import ScheduleWatch

logger = logging.getLogger("django_pgjobs.maintenance")

#: Leadership passes to another process when the leader has been silent for this long.
TERM: Final = timedelta(seconds=15)

#: Rows of one step.
BATCH: Final = 1_000

#: Steps of one service before the others get their turn.
_STEPS_AT_MOST: Final = 100

#: Seconds between two tries to become the leader, and after an error.
_RETRY: Final = 1.0

#: Longest wait after many errors in a row.
_LONGEST_RETRY: Final = 5.0


class Maintainer:
    """Runs every service at its interval, in whichever process leads.

    The services are safe in several processes at once; leadership only saves work. An
    error ends the step and not the loop.

    Args:
        session: a connection of its own.
        services: what to run.
        random: source of jitter; a seeded one in tests.
        batch_size: rows of one step.
    """

    def __init__(
        self,
        session: Session,
        services: Sequence[MaintenanceService],
        *,
        random: Random | None = None,
        batch_size: int = BATCH,
    ) -> None:
        self._session = session
        self._services = services
        self._random = random or SystemRandom()
        self._batch_size = batch_size
        self._leader_id = new_process_id()
        self._stopping = threading.Event()
        self._is_leader = False
        self._renew_at = 0.0
        self._due: dict[str, float] = {}

    @classmethod
    def from_settings(cls, settings: PgJobsSettings, registry: Registry) -> Self:
        """Return a maintainer of every service, as the settings say."""
        read_statements()
        services: list[MaintenanceService] = [
            Partitioner(
                days_ahead=settings.partitions_ahead, retention=settings.history_retention
            ),
            Reaper(
                lease=settings.lease_duration,
                interval=settings.reaper_interval,
                backoff_base=settings.backoff_base,
                backoff_cap=settings.backoff_cap,
            ),
            Stager(),
            # Before the scheduler: to tell of what came while no maintenance ran.
            ScheduleWatch(),
            BreakerKeeper(listen=settings.listen),
            Scheduler(
                registry=registry,
                defaults=Defaults(
                    queue=settings.default_queue, max_attempts=settings.default_max_attempts
                ),
                listen=settings.listen,
            ),
            SlotPruner(retention=settings.history_retention),
            Expirer(),
            EpochKeeper(),
            PresenceKeeper(lease=settings.lease_duration),
        ]
        session = Session(
            settings.database, "pgjobs maintenance", SessionOptions.from_settings(settings)
        )
        return cls(session, services)

    def stop(self) -> None:
        """Have ``run`` return after the step under way.

        A signal handler may call it if ``run`` is in another thread than the handler.
        """
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """True when told to stop."""
        return self._stopping.is_set()

    def run(self) -> None:
        """Run the services until told to stop."""
        logger.info("maintenance started: process=%s", self._leader_id)
        failures = 0
        while not self._stopping.is_set():
            try:
                pause = self._turn()
                failures = 0
            except psycopg.Error as error:
                # Of the message only what cannot hold a row.
                reason = str(error).partition("\n")[0]
                logger.warning("Maintenance failed, will retry: %s", reason)
                self._session.note_error(error)
                self._is_leader = False
                failures += 1
                pause = min(_RETRY * 2.0 ** (failures - 1), _LONGEST_RETRY)
            self._stopping.wait(pause)
        self._resign()
        logger.info("maintenance stopped: process=%s", self._leader_id)

    def run_once(self) -> None:
        """Run every service once, whoever leads, each until it has nothing more to do.

        Raises:
            psycopg.Error: a step failed; the services after it have not run.
        """
        for service in self._services:
            self._run_service(service)
        self._session.close()

    def _turn(self) -> float:
        """Run what is due; return the seconds until something is due again."""
        leads = self._lead()
        if leads != self._is_leader:
            self._is_leader = leads
            logger.info(
                "maintenance %s: process=%s", "leads" if leads else "stands by", self._leader_id
            )
        if not leads:
            return _RETRY * (1 + self._random.random())
        for service in self._services:
            if monotonic() >= self._due.get(service.name, 0.0) and not self._stopping.is_set():
                self._run_in_turn(service)
        return max(0.0, min([*self._due.values(), monotonic() + _RETRY]) - monotonic())

    def _lead(self) -> bool:
        """Become or stay the leader; say whether."""
        if self._is_leader and monotonic() < self._renew_at:
            return True
        self._renew_at = monotonic() + TERM.total_seconds() / 5
        return take_leadership(
            self._session.connection, name="maintenance", leader_id=self._leader_id, term=TERM
        )

    def _run_in_turn(self, service: MaintenanceService) -> None:
        # Due again first, so that no error can lose the service.
        jitter = 0.9 + 0.2 * self._random.random()
        self._due[service.name] = monotonic() + service.interval.total_seconds() * jitter
        try:
            self._run_service(service)
        except (psycopg.OperationalError, errors.ReadOnlySqlTransaction):
            # Of the server and not of the service.
            raise
        except Exception:
            logger.exception("The maintenance service %r failed", service.name)

    def _run_service(self, service: MaintenanceService) -> None:
        for _ in range(_STEPS_AT_MOST):
            report = service.run_once(self._session.connection, batch_size=self._batch_size)
            if report.touched or report.notes:
                signals.maintenance_ran.send_robust(
                    type(service), service=service.name, report=report
                )
            if not report.is_full or self._stopping.is_set():
                return

    def _resign(self) -> None:
        try:
            if self._is_leader:
                resign_leadership(
                    self._session.connection, name="maintenance", leader_id=self._leader_id
                )
        except psycopg.Error as error:
            logger.info("Leadership was not resigned and will run out: %s", error)
        self._session.close()
