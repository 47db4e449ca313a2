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
from queue import Empty, SimpleQueue
from random import Random, SystemRandom
from time import monotonic
from typing import Final

from ..conf import PgJobsSettings
from ..definitions.pools import ASYNC, PROCESSES, THREADS
from ..definitions.registry import Registry
from ..store.claim import ClaimedJob
from ..store.connecting import PATIENCE, Session, SessionOptions, new_process_id
from ..store.execute import WorkerId, read_statements
from .attempts import Attempt, AttemptsInHand, context_of
from .capacity import Capacity
from .claim_loop import ClaimLoop
from .classifying import released
from .finishing import Finisher
from .leasing import Heartbeat
from .listening import Listener
from .measuring import WAIT_AT_MOST
from .pools.building import Surroundings, build_pools
from .pools.processors import available_processors
from .queues import DEFAULT_WEIGHT, QueueOrder, undeclared
from .routing import Routing, pools_wanted
from .silence import LOOK_EVERY
from .tallying import Tally
from .vital import deaths_noted

logger = logging.getLogger("django_pgjobs.worker")


class StopReason(Enum):
    """Why a worker stopped; the value is the exit code."""

    DRAINED = 0
    ISOLATED = 1
    STUCK = 3
    FAILED = 4


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
        read_statements()
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
        self._claim_loop = ClaimLoop(
            session=self._session("claim"),
            worker_id=self.worker_id,
            settings=settings,
            order=self._order,
            discovers_queues=options.queues is None,
            capacity=self._capacity,
            in_hand=self._in_hand,
            begin=self._begin,
            give_back_ahead=self._give_back_ahead,
            tally=self._tally,
            stopping=self._stopping,
            random=self._random,
        )

    @property
    def has_unfinished_handlers(self) -> bool:
        """True when handlers still run, after ``run`` has returned."""
        return self._pools.is_busy

    @property
    def is_stopping(self) -> bool:
        """True from when there is a reason to stop."""
        return self._stopping.is_set() or not self._stops.empty()

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
        with deaths_noted(lambda: self._stops.put(StopReason.FAILED)):
            self._start()
            reason = self._wait_for_reason()
            self._stopping.set()
            self._in_hand.wake()
            _say(
                logging.INFO,
                "worker stopping: worker=%s reason=%s",
                self.worker_id,
                reason.name.lower(),
            )
            self._drain()
        logger.info("worker stopped: worker=%s", self.worker_id)
        return reason

    def _wait_for_reason(self) -> StopReason:
        # A thread waits for one answer at a time.
        limit = self._settings.lease_duration + 2 * PATIENCE * self._settings.statement_timeout
        threads = (self._claim_loop, self._heartbeat, self._finisher)
        silences = [thread.silence(limit) for thread in threads]
        while True:
            with suppress(Empty):
                return self._stops.get(timeout=LOOK_EVERY)
            for silence in silences:
                if silence.is_too_long():
                    _say(
                        logging.CRITICAL,
                        "a thread hangs, so the worker stops: thread=%s. It is at:\n%s",
                        silence.name,
                        silence.stack(),
                    )
                    return StopReason.STUCK

    def _start(self) -> None:
        self._heartbeat.start()
        if self._settings.listen:
            self._listener.start()
        self._finisher.start()
        self._pools.start()
        self._claim_loop.start()

    def _wake_for(self, queue: str) -> None:
        self._order.prefer(queue)
        self._in_hand.wake()

    def _drain(self) -> None:
        seconds = self._settings.shutdown_timeout.total_seconds()
        deadline = monotonic() + seconds
        # Where the network passes nothing, a claim hangs for longer than there is time.
        self._claim_loop.join(seconds)
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

    def _give_back_ahead(self) -> None:
        attempts = self._pools.take_back_ahead(WAIT_AT_MOST)
        for pool in {attempt.pool for attempt in attempts}:
            # So that it does not claim as many again.
            self._capacity.loads[pool].run_time.note_at_least(WAIT_AT_MOST)
        if attempts:
            logger.info("giving back jobs that wait behind longer ones: jobs=%s", len(attempts))
        self._give_back(attempts)

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

    def _session(self, purpose: str, longest_patience: timedelta | None = None) -> Session:
        return Session(
            self._settings.database,
            f"pgjobs {purpose} {self.worker_id}",
            SessionOptions.from_settings(self._settings, longest_patience=longest_patience),
        )


def _say(level: int, message: str, *args: object) -> None:
    """Log something that must not keep anybody: a log handler may raise, or hang.

    It hangs where whoever should read the log has ceased to.
    """
    with suppress(RuntimeError):
        threading.Thread(
            target=logger.log, args=[level, message, *args], name="pgjobs-log", daemon=True
        ).start()


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
