"""Write outcomes: at once when idle, in batches under load."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from random import Random
from typing import Final

import psycopg

from .. import signals
from ..store.connecting import Session
from ..store.execute import WorkerId
from ..store.finish import Ending, Success, complete_jobs, end_attempts, resolve_attempts
from .attempts import Attempt, AttemptsInHand
from .classifying import released
from .outages import Outage
from .recording import Recorded
from .retrying import describe, is_transient, pause_before
from .silence import Silence
from .tallying import Tally
from .telling import tell
from .vital import VitalThread

logger = logging.getLogger("django_pgjobs.worker")

#: Most outcomes in one statement.
BATCH: Final = 500

Outcomes = Sequence[tuple[Attempt, Success | Ending | Recorded]]


class Finisher:
    """A thread that writes the outcomes of attempts, under their fences.

    While one batch is written the next one gathers, so batches grow with the load. An
    outcome is kept and tried again through an outage; what makes it safe to write twice is the
    fence, and what tells a lost answer from a lost lease is resolve_attempts.

    Args:
        session: a connection of its own.
        worker_id: of the worker.
        in_hand: attempts are removed from it when written or refused.
        backoff_base: see sql/finish/end_attempts.sql.
        backoff_cap: see there.
        random: source of jitter.
        tally: told what is on record; delays retries beyond a budget.
    """

    def __init__(
        self,
        *,
        session: Session,
        worker_id: WorkerId,
        in_hand: AttemptsInHand,
        backoff_base: timedelta,
        backoff_cap: timedelta,
        random: Random,
        tally: Tally,
    ) -> None:
        self._session = session
        self._tally = tally
        self._worker_id = worker_id
        self._in_hand = in_hand
        self._backoff_base = backoff_base
        self._backoff_cap = backoff_cap
        self._random = random
        self._outcomes: SimpleQueue[tuple[Attempt, Success | Ending | Recorded] | None] = (
            SimpleQueue()
        )
        self._submitting = threading.Lock()
        self._outage = Outage("Writing outcomes failed, will retry")
        self._abandoned = threading.Event()
        self._turns: int | None = None
        self._thread = VitalThread(self._run, name="pgjobs-finisher")

    def silence(self, limit: timedelta) -> Silence:
        """Return what notices that the thread stands still for longer than ``limit``."""
        return Silence(self._thread, lambda: self._turns, limit)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, attempt: Attempt, outcome: Success | Ending | Recorded) -> None:
        """Have an outcome written. Returns at once.

        Only the first outcome of an attempt counts: a handler may return after the worker
        has given its job back.
        """
        with self._submitting:
            if attempt.has_ended:
                return
            attempt.has_ended = True
        self._outcomes.put((attempt, outcome))

    def submit_all(self, outcomes: Outcomes) -> None:
        """Have outcomes written, like ``submit``."""
        with self._submitting:
            first = [item for item in outcomes if not item[0].has_ended]
            for attempt, _ in first:
                attempt.has_ended = True
        for item in first:
            self._outcomes.put(item)

    def stop(self, *, timeout: float) -> None:
        """Write what was submitted, then end; give up after ``timeout`` seconds."""
        self._outcomes.put(None)
        self._thread.join(timeout)
        self._abandoned.set()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._gather()
            for part in without_repeats(batch):
                self._write(part)
                self._in_hand.remove([attempt for attempt, _ in part])
        self._session.close()

    def _gather(self) -> tuple[list[tuple[Attempt, Success | Ending | Recorded]], bool]:
        batch = []
        self._turns = None
        item = self._outcomes.get()
        self._turns = 0
        with suppress(Empty):
            while item is not None:
                batch.append(item)
                if len(batch) >= BATCH:
                    return batch, False
                item = self._outcomes.get_nowait()
            return batch, True
        return batch, False

    def _write(self, batch: Outcomes) -> None:
        """Write a batch, however long it takes; drop what is refused."""
        while not self._abandoned.is_set():
            self._turns = (self._turns or 0) + 1
            try:
                self._write_once(batch)
            except psycopg.Error as error:
                self._session.note_error(error)
                if is_transient(error):
                    tries = self._outage.note(error)
                    self._abandoned.wait(pause_before(tries, self._random))
                    continue
                self._write_one_by_one(batch, error)
            self._outage.end()
            return

    def _write_once(self, batch: Outcomes) -> None:
        written: set[int] = {
            attempt.job.id for attempt, outcome in batch if isinstance(outcome, Recorded)
        }
        successes = [outcome for _, outcome in batch if isinstance(outcome, Success)]
        if successes:
            written.update(
                complete_jobs(self._session.connection, successes, worker_id=self._worker_id)
            )
        endings = [
            self._tally.spread(attempt.job.job_name, outcome)
            for attempt, outcome in batch
            if isinstance(outcome, Ending)
        ]
        if endings:
            ended = end_attempts(
                self._session.connection,
                endings,
                worker_id=self._worker_id,
                backoff_base=self._backoff_base,
                backoff_cap=self._backoff_cap,
            )
            written.update(job.id for job in ended)
        for attempt, outcome in batch:
            if attempt.job.id in written:
                self._tally.note(attempt.job.job_name, outcome)
        if len(written) < len(batch):
            self._resolve([attempt for attempt, _ in batch if attempt.job.id not in written])

    def _resolve(self, refused: Sequence[Attempt]) -> None:
        resolved = resolve_attempts(
            self._session.connection,
            [attempt.key for attempt in refused],
            worker_id=self._worker_id,
        )
        recorded = {attempt.id for attempt in resolved if attempt.is_recorded}
        for attempt in refused:
            if attempt.job.id not in recorded:
                report_lost(attempt)

    def _write_one_by_one(self, batch: Outcomes, error: psycopg.Error) -> None:
        """Keep one outcome that cannot be written from taking its neighbours with it."""
        if len(batch) > 1:
            for item in batch:
                self._write([item])
            return
        ((attempt, outcome),) = batch
        logger.error("The outcome of job id=%s was refused: %s", attempt.job.id, describe(error))
        if isinstance(outcome, Success):
            # Without its result the success can be recorded.
            self._write([(attempt, Success(*attempt.key, None))] if outcome.result else [])
        elif isinstance(outcome, Ending) and outcome.error_message is not None:
            self._write([(attempt, released(attempt, delay=self._backoff_cap))])


def without_repeats(batch: Outcomes) -> list[Outcomes]:
    """Return ``batch`` in parts, in order, none of which has two attempts of one job.

    Statements answer by job: after a lost lease the same worker may have an old and a new attempt.
    """
    parts: list[list[tuple[Attempt, Success | Ending | Recorded]]] = []
    seen: set[int] = set()
    for item in batch:
        job_id = item[0].job.id
        if not parts or job_id in seen:
            parts.append([])
            seen.clear()
        parts[-1].append(item)
        seen.add(job_id)
    return list(parts)


def report_lost(attempt: Attempt) -> None:
    """Tell the handler and the project that an attempt is not this worker's any more."""
    if attempt.is_lost:
        return
    attempt.is_lost = True
    attempt.context.cancel()
    tell(signals.lease_lost, Attempt, job_id=attempt.job.id, fence_token=attempt.job.fence_token)
