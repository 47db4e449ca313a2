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
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from queue import SimpleQueue
from random import Random, SystemRandom
from time import monotonic
from typing import Final

import psycopg

from ..conf import PgJobsSettings
from ..definitions.pools import ASYNC, PROCESSES, THREADS
from ..definitions.registry import Registry
from ..store.claim import ClaimedJob, list_queues, mark_busy, mark_idle, stage_jobs
from ..store.connecting import Session, SessionOptions, new_process_id
from ..store.execute import WorkerId
from .attempts import Attempt, AttemptsInHand, context_of
from .capacity import Capacity
from .claiming import Claimer
from .classifying import released
from .finishing import Finisher
from .idleness import FULL_AFTER, Idleness
from .leasing import Heartbeat
from .listening import Listener
from .outages import Outage
from .pools.building import Surroundings, build_pools
from .pools.processors import available_processors
from .queues import DEFAULT_WEIGHT, QueueOrder, undeclared
from .retrying import pause_before
from .routing import Routing, pools_wanted
from .tallying import Tally
from .unanswered import Unanswered

logger = logging.getLogger("django_pgjobs.worker")

#: Between two looks for queues that nobody declared, in seconds.
DISCOVER_EVERY: Final = 5.0

_STAGE_AT_MOST: Final = 1_000
_QUEUES_AT_MOST: Final = 1_000

#: Seconds that handlers get to begin after an idle worker's claim, before it looks for more.
_BEGIN_FIRST: Final = 0.001


class StopReason(Enum):
    """Why a worker stopped; the value is the exit code."""

    DRAINED = 0
    ISOLATED = 1
    STUCK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How one worker process works.

    Attributes:
        queues: weight of each queue to serve; None for every queue there is.
        is_strict: serve the queues strictly in the order given.
        concurrency: handlers to run at a time in threads.
        async_concurrency: handlers to run at a time in the event loop.
        settings: everything else.
        pool: of handlers defined with ``def`` that declare none.
        process_concurrency: handlers to run at a time in processes; None for the number of
            processors.
    """

    queues: Mapping[str, int] | None
    is_strict: bool
    concurrency: int
    async_concurrency: int
    settings: PgJobsSettings
    pool: str = THREADS
    process_concurrency: int | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Handlers to run at a time, of each pool."""
        return {
            THREADS: self.concurrency,
            ASYNC: self.async_concurrency,
            PROCESSES: self.process_concurrency
            or self.settings.process_concurrency
            or available_processors(),
        }


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
        wanted = pools_wanted(registry, options.pool)
        # A pool of processes costs nothing until a job needs it: so any job can be run apart
        # from the others. An event loop has threads.
        sizes = {n: size for n, size in options.sizes.items() if n in {*wanted, PROCESSES}}
        self._routing = Routing(registry, options.pool, sizes)
        self._capacity = Capacity(sizes, self._routing.pools_of_queues(settings.default_queue))
        self._in_hand = AttemptsInHand(self._capacity.loads)
        self._stopping = threading.Event()
        # put() of a SimpleQueue is reentrant, so a signal handler may call stop().
        self._stops: SimpleQueue[StopReason] = SimpleQueue()
        self._order = _queue_order(options, registry)
        self._claimer = Claimer(
            order=self._order,
            worker_id=self.worker_id,
            lease=settings.lease_duration,
            default_weight=settings.default_quota_weight,
            random=self._random,
        )
        self._unanswered = Unanswered(
            worker_id=self.worker_id,
            backoff_base=settings.backoff_base,
            backoff_cap=settings.backoff_cap,
        )
        self._tally = Tally(registry, self.worker_id)
        self._finisher = Finisher(
            session=self._session("finish"),
            worker_id=self.worker_id,
            in_hand=self._in_hand,
            backoff_base=settings.backoff_base,
            backoff_cap=settings.backoff_cap,
            random=self._random,
            tally=self._tally,
        )
        self._pools = build_pools(
            self._capacity.loads,
            Surroundings(
                settings=settings,
                registry=registry,
                worker_id=self.worker_id,
                stopping=self._stopping,
                finisher=self._finisher,
                random=self._random,
                on_stuck=lambda: self._stops.put(StopReason.STUCK),
            ),
        )
        self._heartbeat = Heartbeat(
            session=self._session(
                "heartbeat", max(settings.lease_duration / 3, _HEARTBEAT_PATIENCE)
            ),
            worker_id=self.worker_id,
            in_hand=self._in_hand,
            lease=settings.lease_duration,
            interval=settings.heartbeat_interval,
            look_interval=min(settings.poll_interval, settings.heartbeat_interval),
            queues=lambda: self._order.names,
            concurrency=sum(sizes[name] for name in wanted),
            channel=self._channel if settings.listen else None,
            on_unwanted=self._pools.interrupt,
            on_isolation=lambda: self._stops.put(StopReason.ISOLATED),
        )
        self._listener = Listener(
            session=Session(
                settings.listen_database or settings.database,
                f"pgjobs listen {self.worker_id}",
                replace(SessionOptions.from_settings(settings), keeps_state=True),
            ),
            channel=self._channel,
            wake=self._wake_for,
            random=self._random,
        )
        self._claiming = threading.Thread(
            target=self._claim_until_stopped, name="pgjobs-claimer", daemon=True
        )

    @property
    def has_unfinished_handlers(self) -> bool:
        """True when handlers still run, after ``run`` has returned."""
        return self._pools.is_busy

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
        self._pools.start()
        self._claiming.start()
        reason = self._stops.get()
        self._stopping.set()
        self._in_hand.wake()
        logger.info("worker stopping: worker=%s reason=%s", self.worker_id, reason.name.lower())
        self._drain()
        logger.info("worker stopped: worker=%s", self.worker_id)
        return reason

    def _wake_for(self, queue: str) -> None:
        self._order.prefer(queue)
        self._in_hand.wake()

    def _drain(self) -> None:
        seconds = self._settings.shutdown_timeout.total_seconds()
        deadline = monotonic() + seconds
        # Where the network passes nothing, a claim hangs for longer than there is time.
        self._claiming.join(seconds)
        if self._settings.listen:
            self._listener.stop()
        self._give_back(self._pools.take_back())
        self._in_hand.wait_until_none(timeout=max(0.0, deadline - monotonic()))
        # Handlers that can be killed are dead before others may claim their jobs.
        self._pools.stop()
        self._give_back(self._in_hand.all())
        self._finisher.stop(timeout=_LAST_WRITE)
        self._heartbeat.stop()

    def _give_back(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._finisher.submit(attempt, released(attempt))

    def _claim_until_stopped(self) -> None:
        session = self._session("claim")
        idle = Idleness(self._settings.poll_interval, listens=self._settings.listen)
        outage = Outage("Claiming failed, will retry")
        while not self._stopping.is_set():
            try:
                self._claim_once(session, idle)
                outage.end()
            except psycopg.Error as error:
                session.note_error(error)
                # The list of workers may be gone: an unclean restart of the server empties it.
                idle.note_taken_back()
                self._unanswered.note_error()
                self._stopping.wait(pause_before(outage.note(error), self._random))
        with suppress(psycopg.Error):
            self._give_back_unanswered(session)
        session.close()

    def _give_back_unanswered(self, session: Session) -> None:
        if self._unanswered.is_due:
            self._unanswered.give_back(session.connection, self._in_hand.tokens())

    def _claim_once(self, session: Session, idle: Idleness) -> None:
        self._give_back_unanswered(session)
        self._tally.tell_if_due(session.connection)
        timeout = FULL_AFTER if idle.has_said_so else 1
        if not self._in_hand.wait_for(self._has_room, timeout=timeout):
            self._take_back(session, idle)
            self._stage_if_due(session, idle)
            return
        jobs = self._claimer.claim(
            session.connection, self._settings.claim_batch_size, self._capacity.room
        )
        if jobs:
            self._begin(jobs)
            idle.note_work()
            if idle.should_take_back():
                self._take_back(session, idle)
            if idle.has_said_so:
                # They would wait for this thread to let go of the interpreter's lock.
                self._stopping.wait(_BEGIN_FIRST)
            # Only now: somebody who was woken has something to claim.
            self._stage_if_due(session, idle)
        elif not self._stage(session, idle):
            self._discover_if_due(session, idle)
            self._rest(session, idle)

    def _take_back(self, session: Session, idle: Idleness) -> None:
        if idle.has_said_so:
            mark_busy(session.connection, worker_id=self.worker_id)
            idle.note_taken_back()

    def _has_room(self) -> bool:
        return any(self._capacity.room(queue) > 0 for queue in self._order.names)

    def _rest(self, session: Session, idle: Idleness) -> None:
        full = {queue for queue in self._order.names if self._capacity.room(queue) <= 0}
        # A worker that could not take any job is not idle.
        if (
            not full
            and idle.should_say_so()
            and mark_idle(session.connection, worker_id=self.worker_id, queues=self._order.names)
        ):
            idle.note_said_so()
        self._in_hand.wait_for(
            lambda: any(self._capacity.room(queue) > 0 for queue in full),
            timeout=idle.next_wait(),
        )

    def _begin(self, jobs: list[ClaimedJob]) -> None:
        attempts = [
            Attempt(
                job,
                context_of(job, self.worker_id, self._stopping),
                self._routing.pool_of(job.job_name, losses=job.losses),
            )
            for job in jobs
        ]
        # In hand before they run: a job that waits for a slot needs its lease renewed too.
        self._in_hand.add(attempts)
        self._pools.submit(attempts)

    def _stage_if_due(self, session: Session, idle: Idleness) -> None:
        if monotonic() >= idle.stage_at:
            self._stage(session, idle)

    def _stage(self, session: Session, idle: Idleness) -> bool:
        staged = stage_jobs(session.connection, limit=_STAGE_AT_MOST)
        idle.note_staged(staged.next_due)
        return staged.staged > 0

    def _discover_if_due(self, session: Session, idle: Idleness) -> None:
        if self._options.queues is None and monotonic() >= idle.discover_at:
            if self._order.add(list_queues(session.connection, limit=_QUEUES_AT_MOST)):
                # Producers are to know that it can be woken for these, too.
                idle.note_taken_back()
            idle.discover_at = monotonic() + DISCOVER_EVERY

    def _session(self, purpose: str, longest_patience: timedelta | None = None) -> Session:
        return Session(
            self._settings.database,
            f"pgjobs {purpose} {self.worker_id}",
            SessionOptions.from_settings(self._settings, longest_patience=longest_patience),
        )


#: A heartbeat without an answer for a third of the lease is given up, but a slow server is not.
_HEARTBEAT_PATIENCE: Final = timedelta(seconds=5)

#: Seconds for the last outcomes to be written.
_LAST_WRITE: Final = 10.0


def _queue_order(options: WorkerOptions, registry: Registry) -> QueueOrder:
    default = options.settings.default_queue
    declared = {definition.queue or default for definition in registry} | {default}
    if options.queues is None:
        return QueueOrder(dict.fromkeys(sorted(declared), DEFAULT_WEIGHT))
    for queue in undeclared(options.queues, declared):
        logger.warning(
            "no job declares this queue: queue=%s declared=%s", queue, ",".join(sorted(declared))
        )
    return QueueOrder(options.queues, is_strict=options.is_strict)
