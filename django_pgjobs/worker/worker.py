"""A worker: claims jobs, runs them in a pool, writes their outcomes.

::

    claimer ──> pool ──> finisher
       │                    │
       └─ attempts in hand ─┴─ heartbeat

Four kinds of threads around one set of attempts in hand. An attempt is in hand from its
claim until its outcome is written; the claimer takes more when there is room.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from random import Random, SystemRandom
from time import monotonic
from typing import Final

import psycopg

from ..conf import PgJobsSettings
from ..definitions.context import JobContext
from ..definitions.registry import Registry
from ..store.claim import ClaimedJob, list_queues, mark_busy, mark_idle, stage_jobs
from ..store.connecting import Session, new_process_id
from ..store.execute import WorkerId
from .attempts import Attempt, AttemptsInHand
from .claiming import Claimer
from .execution import Execution, released
from .finishing import Finisher
from .idleness import Idleness
from .leasing import Heartbeat
from .listening import Listener
from .measuring import RunTime, jobs_in_hand
from .pools import ThreadPool
from .queues import DEFAULT_WEIGHT, QueueOrder
from .retrying import describe, pause_before
from .timeouts import DeadlineWatch

logger = logging.getLogger("django_pgjobs.worker")

#: Between two looks for queues that nobody declared, in seconds.
DISCOVER_EVERY: Final = 5.0

_STAGE_AT_MOST: Final = 1_000
_QUEUES_AT_MOST: Final = 1_000


class StopReason(Enum):
    """Why a worker stopped; the value is the exit code."""

    DRAINED = 0
    ISOLATED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How one worker process works.

    Attributes:
        queues: weight of each queue to serve; None for every queue there is.
        is_strict: serve the queues strictly in the order given.
        concurrency: jobs to run at a time.
        settings: everything else.
    """

    queues: Mapping[str, int] | None
    is_strict: bool
    concurrency: int
    settings: PgJobsSettings


class Worker:
    """One worker.

    Args:
        options: how it works.
        registry: the definitions it can run.
        random: source of jitter; a seeded one in tests.
    """

    def __init__(
        self, options: WorkerOptions, registry: Registry, *, random: Random | None = None
    ) -> None:
        settings = options.settings
        self.worker_id = WorkerId(new_process_id())
        self._channel = f"pgjobs_{secrets.token_hex(8)}"
        self._options = options
        self._settings = settings
        self._random = random or SystemRandom()
        self._in_hand = AttemptsInHand()
        self._run_time = RunTime()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        # put() of a SimpleQueue is reentrant, so a signal handler may call stop().
        self._stops: SimpleQueue[StopReason] = SimpleQueue()
        self._watch = DeadlineWatch()
        self._order = _queue_order(options, registry)
        self._claimer = Claimer(
            order=self._order,
            worker_id=self.worker_id,
            lease=settings.lease_duration,
            default_weight=settings.default_quota_weight,
            random=self._random,
        )
        self._finisher = Finisher(
            session=self._session("finish"),
            worker_id=self.worker_id,
            in_hand=self._in_hand,
            backoff_base=settings.backoff_base,
            backoff_cap=settings.backoff_cap,
            random=self._random,
        )
        self._heartbeat = Heartbeat(
            session=self._session("heartbeat"),
            worker_id=self.worker_id,
            in_hand=self._in_hand,
            lease=settings.lease_duration,
            interval=settings.heartbeat_interval,
            queues=lambda: self._order.names,
            concurrency=options.concurrency,
            channel=self._channel if settings.listen else None,
            on_isolation=lambda: self._stops.put(StopReason.ISOLATED),
        )
        self._listener = Listener(
            session=self._session("listen"),
            channel=self._channel,
            wake=self._woken.set,
            random=self._random,
        )
        self._execution = Execution(
            registry=registry,
            run_time=self._run_time,
            watch=self._watch,
            max_result_bytes=settings.max_payload_bytes,
            alias=settings.database,
            worker_id=self.worker_id,
        )
        self._pool = ThreadPool(options.concurrency, self._work)
        self._claiming = threading.Thread(
            target=self._claim_until_stopped, name="pgjobs-claimer", daemon=True
        )

    @property
    def has_unfinished_handlers(self) -> bool:
        """True when handlers still run, after ``run`` has returned."""
        return self._pool.is_busy

    def stop(self) -> None:
        """Have the worker drain and ``run`` return. May be called in a signal handler."""
        self._stops.put(StopReason.DRAINED)

    def run(self) -> StopReason:
        """Work until told to stop, then drain; say why it stopped.

        Drain: claim nothing more, give back at once what has not started, let running
        handlers finish until the shutdown timeout, then give their jobs back too. No
        attempt that was given back counts.
        """
        logger.info(
            "worker started: worker=%s queues=%s concurrency=%s",
            self.worker_id,
            ",".join(self._order.names),
            self._options.concurrency,
        )
        self._heartbeat.start()
        if self._settings.listen:
            self._listener.start()
        self._finisher.start()
        self._pool.start()
        self._claiming.start()
        reason = self._stops.get()
        self._stopping.set()
        self._woken.set()
        logger.info("worker stopping: worker=%s reason=%s", self.worker_id, reason.name.lower())
        self._drain()
        logger.info("worker stopped: worker=%s", self.worker_id)
        return reason

    def _drain(self) -> None:
        deadline = monotonic() + self._settings.shutdown_timeout.total_seconds()
        self._claiming.join()
        if self._settings.listen:
            self._listener.stop()
        self._give_back(self._pool.take_back())
        self._in_hand.wait_below(1, timeout=max(0.0, deadline - monotonic()))
        self._give_back(self._in_hand.all())
        self._pool.stop()
        self._finisher.stop(timeout=_LAST_WRITE)
        self._heartbeat.stop()
        self._watch.stop()

    def _give_back(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._finisher.submit(attempt, released(attempt))

    def _work(self, attempt: Attempt) -> None:
        if self._stopping.is_set():
            self._finisher.submit(attempt, released(attempt))
        else:
            self._finisher.submit(attempt, self._execution.run(attempt))

    def _claim_until_stopped(self) -> None:
        session = self._session("claim")
        idle = Idleness(self._settings.poll_interval)
        failures = 0
        while not self._stopping.is_set():
            try:
                self._claim_once(session, idle)
                failures = 0
            except psycopg.Error as error:
                failures += 1
                logger.warning("Claiming failed, will retry: %s", describe(error))
                self._stopping.wait(pause_before(failures, self._random))
        session.close()

    def _claim_once(self, session: Session, idle: Idleness) -> None:
        wanted = jobs_in_hand(self._options.concurrency, self._run_time.seconds)
        if not self._in_hand.wait_below(
            _refill_below(wanted, self._options.concurrency), timeout=1
        ):
            self._stage_if_due(session, idle)
            return
        self._stage_if_due(session, idle)
        room = min(wanted - len(self._in_hand), self._settings.claim_batch_size)
        jobs = self._claimer.claim(session.connection, room)
        if jobs:
            self._begin(jobs)
            if idle.has_said_so:
                mark_busy(session.connection, worker_id=self.worker_id)
            idle.note_work()
        elif not self._stage(session, idle):
            self._discover_if_due(session, idle)
            self._rest(session, idle)

    def _rest(self, session: Session, idle: Idleness) -> None:
        if self._settings.listen and idle.should_say_so():
            mark_idle(session.connection, worker_id=self.worker_id)
            idle.note_said_so()
        self._woken.wait(idle.next_wait())
        # Cleared before the next look: what is notified from now on wakes it again.
        self._woken.clear()

    def _begin(self, jobs: list[ClaimedJob]) -> None:
        attempts = [Attempt(job, _context(job, self.worker_id, self._stopping)) for job in jobs]
        # In hand before they run: a job that waits for a slot needs its lease renewed too.
        self._in_hand.add(attempts)
        self._pool.submit(attempts)

    def _stage_if_due(self, session: Session, idle: Idleness) -> None:
        if monotonic() >= idle.stage_at:
            self._stage(session, idle)

    def _stage(self, session: Session, idle: Idleness) -> bool:
        staged = stage_jobs(session.connection, limit=_STAGE_AT_MOST)
        idle.note_staged(staged.next_due)
        return staged.staged > 0

    def _discover_if_due(self, session: Session, idle: Idleness) -> None:
        if self._options.queues is None and monotonic() >= idle.discover_at:
            self._order.add(list_queues(session.connection, limit=_QUEUES_AT_MOST))
            idle.discover_at = monotonic() + DISCOVER_EVERY

    def _session(self, purpose: str) -> Session:
        return Session(self._settings.database, f"pgjobs {purpose} {self.worker_id}")


#: Seconds for the last outcomes to be written.
_LAST_WRITE: Final = 10.0


def _queue_order(options: WorkerOptions, registry: Registry) -> QueueOrder:
    if options.queues is not None:
        return QueueOrder(options.queues, is_strict=options.is_strict)
    default = options.settings.default_queue
    declared = {definition.queue or default for definition in registry} | {default}
    return QueueOrder(dict.fromkeys(sorted(declared), DEFAULT_WEIGHT))


def _refill_below(wanted: int, concurrency: int) -> int:
    """Return the number in hand below which to claim: for fast jobs many at a time."""
    return max(1, wanted - max(0, (wanted - concurrency) // 2))


def _context(job: ClaimedJob, worker_id: WorkerId, stopping: threading.Event) -> JobContext:
    return JobContext(
        id=job.id,
        name=job.job_name,
        queue=job.queue_name,
        tenant_id=job.tenant_id,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        claims=job.claims,
        payload_version=job.payload_version,
        worker_id=worker_id,
        _stopping=stopping,
    )
