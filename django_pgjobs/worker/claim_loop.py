"""The claimer: take jobs while there is room for them, and wait well while there are none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from random import Random
from time import monotonic
from typing import Final

import psycopg

from ..conf import PgJobsSettings
from ..store.claim import ClaimedJob, list_queues, mark_idle, stage_jobs
from ..store.connecting import Session
from ..store.execute import WorkerId
from .attempts import AttemptsInHand
from .capacity import Capacity
from .claiming import Claimer
from .idleness import FULL_AFTER, Idleness
from .outages import Outage
from .queues import QueueOrder
from .retrying import pause_before
from .silence import Silence
from .tallying import Tally
from .unanswered import Unanswered
from .vital import VitalThread

#: Between two looks for queues that nobody declared, in seconds.
DISCOVER_EVERY: Final = 5.0

#: Between two looks whether jobs in hand wait for too long, in seconds.
LOOK_AHEAD_EVERY: Final = 0.5

_STAGE_AT_MOST: Final = 1_000
_QUEUES_AT_MOST: Final = 1_000

#: Seconds that handlers get to begin after an idle worker's claim, before it looks for more.
_BEGIN_FIRST: Final = 0.001


class ClaimLoop:
    """A thread with a connection of its own that claims jobs and has them run.

    It also does what is best done between two claims: it stages waiting jobs that are due, gives
    back jobs of claims whose answer got lost, and tells producers whether the worker is idle.

    Args:
        session: a connection of its own.
        worker_id: of the worker.
        settings: of the project.
        order: which queue comes next.
        discovers_queues: whether to serve queues that nobody declared, too.
        capacity: how many jobs there is room for.
        in_hand: the attempts whose outcome is not written yet.
        begin: called with the jobs of each claim.
        give_back_ahead: called now and then, to give back what waits for too long.
        tally: told to the tables between two claims.
        stopping: set when nothing more is to be claimed.
        random: source of jitter; a seeded one in tests.
    """

    def __init__(
        self,
        *,
        session: Session,
        worker_id: WorkerId,
        settings: PgJobsSettings,
        order: QueueOrder,
        discovers_queues: bool,
        capacity: Capacity,
        in_hand: AttemptsInHand,
        begin: Callable[[list[ClaimedJob]], None],
        give_back_ahead: Callable[[], None],
        tally: Tally,
        stopping: threading.Event,
        random: Random,
    ) -> None:
        self._session = session
        self._worker_id = worker_id
        self._batch_size = settings.claim_batch_size
        self._order = order
        self._discovers_queues = discovers_queues
        self._capacity = capacity
        self._in_hand = in_hand
        self._begin = begin
        self._give_back_ahead = give_back_ahead
        self._look_ahead_at = 0.0
        self._tally = tally
        self._stopping = stopping
        self._random = random
        self._idle = Idleness(settings.poll_interval, listens=settings.listen)
        self._claimer = Claimer(
            order=order,
            worker_id=worker_id,
            lease=settings.lease_duration,
            default_weight=settings.default_quota_weight,
            random=random,
        )
        self._unanswered = Unanswered(
            worker_id=worker_id,
            backoff_base=settings.backoff_base,
            backoff_cap=settings.backoff_cap,
        )
        self._turns: int | None = 0
        self._thread = VitalThread(self._run, name="pgjobs-claimer")

    def silence(self, limit: timedelta) -> Silence:
        """Return what notices that the thread stands still for longer than ``limit``."""
        return Silence(self._thread, lambda: self._turns, limit)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the thread to end, once it is told to stop."""
        self._thread.join(timeout)

    def _run(self) -> None:
        outage = Outage("Claiming failed, will retry")
        for turn in count():
            if self._stopping.is_set():
                break
            self._turns = turn
            try:
                self._claim_once()
                outage.end()
            except psycopg.Error as error:
                self._session.note_error(error)
                # The list of workers may be gone: an unclean restart of the server empties it.
                self._idle.note_unsure()
                self._unanswered.note_error()
                self._stopping.wait(pause_before(outage.note(error), self._random))
        with suppress(psycopg.Error):
            self._give_back_unanswered()
        self._session.close()

    def _give_back_unanswered(self) -> None:
        if self._unanswered.is_due:
            self._unanswered.give_back(self._session.connection, self._in_hand.tokens())

    def _claim_once(self) -> None:
        self._give_back_unanswered()
        if monotonic() >= self._look_ahead_at:
            self._give_back_ahead()
            self._look_ahead_at = monotonic() + LOOK_AHEAD_EVERY
        self._tally.tell_if_due(self._session.connection)
        timeout = FULL_AFTER if self._idle.has_said_so else LOOK_AHEAD_EVERY
        if not self._in_hand.wait_for(self._has_room, timeout=timeout):
            self._take_back()
            self._stage_if_due()
            return
        jobs = self._claimer.claim(self._session.connection, self._batch_size, self._capacity.room)
        if jobs:
            self._begin(jobs)
            self._idle.note_work()
            if self._idle.should_take_back():
                self._take_back()
            if self._idle.has_said_so:
                # They would wait for this thread to let go of the interpreter's lock.
                self._stopping.wait(_BEGIN_FIRST)
            # Only now: somebody who was woken has something to claim.
            self._stage_if_due()
        elif not self._stage():
            self._discover_if_due()
            self._rest()

    def _take_back(self) -> None:
        if self._idle.has_said_so:
            self._say(frozenset())

    def _say(self, queues: frozenset[str]) -> None:
        is_listed = mark_idle(self._session.connection, worker_id=self._worker_id, queues=queues)
        self._idle.note_said(queues if is_listed else frozenset())

    def _has_room(self) -> bool:
        return any(self._capacity.room(queue) > 0 for queue in self._order.names)

    def _rest(self) -> None:
        # Nobody is to be woken for what could not begin at once.
        free = frozenset(queue for queue in self._order.names if self._capacity.places(queue))
        full = frozenset(self._order.names) - free

        def has_more_places() -> bool:
            return any(self._capacity.places(queue) for queue in full)

        if self._idle.has_said_so_of(full):
            # Most jobs end soon, and then there is nothing to take back.
            if not self._in_hand.wait_for(has_more_places, timeout=FULL_AFTER):
                self._say(free)
            return
        if self._idle.should_say_so(free):
            self._say(free)
        wait = self._idle.next_wait(free)
        if self._capacity.is_ahead:
            wait = min(wait, LOOK_AHEAD_EVERY)
        # However long that is.
        self._turns = None
        self._in_hand.wait_for(has_more_places, timeout=wait)

    def _stage_if_due(self) -> None:
        if monotonic() >= self._idle.stage_at:
            self._stage()

    def _stage(self) -> bool:
        staged = stage_jobs(self._session.connection, limit=_STAGE_AT_MOST)
        self._idle.note_staged(staged.next_due)
        return staged.staged > 0

    def _discover_if_due(self) -> None:
        if self._discovers_queues and monotonic() >= self._idle.discover_at:
            self._order.add(list_queues(self._session.connection, limit=_QUEUES_AT_MOST))
            self._idle.discover_at = monotonic() + DISCOVER_EVERY
