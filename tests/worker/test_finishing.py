"""Outcomes are written in batches."""

from __future__ import annotations

import threading
from datetime import timedelta
from random import Random
from types import SimpleNamespace

import pytest

from django_pgjobs import signals
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.store.connecting import Session
from django_pgjobs.store.finish import Success
from django_pgjobs.worker.attempts import Attempt, AttemptsInHand, context_of
from django_pgjobs.worker.capacity import Load
from django_pgjobs.worker.finishing import Finisher, without_repeats
from django_pgjobs.worker.tallying import Tally
from tests import factories
from tests.factories import WORKER
from tests.store.calls import claim_jobs


@pytest.fixture
def lost():
    """Return the tokens of the attempts that the worker was told to have lost."""
    tokens = []

    def note(*, fence_token, **kwargs):
        tokens.append(fence_token)

    signals.lease_lost.connect(note)
    yield tokens
    signals.lease_lost.disconnect(note)


def test_an_old_attempt_is_told_from_the_new_one_of_its_job(connection, lost):
    in_hand = AttemptsInHand({"threads": Load(10)})
    factories.pending_job()
    old = claim(connection)
    # Its lease was lost, and the same worker claims the job again.
    connection.execute(
        "UPDATE jobs_active SET status = 'pending', locked_by = NULL, locked_at = NULL, "
        "lease_expires = NULL, fence_token = NULL"
    )
    new = claim(connection)
    in_hand.add([old, new])
    finisher = Finisher(
        session=Session("default", "pgjobs test"),
        worker_id=WORKER,
        in_hand=in_hand,
        backoff_base=timedelta(seconds=1),
        backoff_cap=timedelta(seconds=1),
        random=Random(1),
        tally=Tally(Registry(), WORKER),
    )

    # Before it starts: both are in its first batch.
    finisher.submit_all([(old, Success(*old.key, None)), (new, Success(*new.key, None))])
    finisher.start()
    finisher.stop(timeout=60)

    assert lost == [old.job.fence_token]
    assert (old.is_lost, new.is_lost) == (True, False)
    assert len(in_hand) == 0
    (token,) = connection.execute("SELECT fence_token FROM jobs_completed").fetchone()
    assert token == new.job.fence_token


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ([], []),
        ([1, 2, 3], [[1, 2, 3]]),
        ([1, 1, 2], [[1], [1, 2]]),
        ([1, 2, 1, 2, 1], [[1, 2], [1, 2], [1]]),
    ],
)
def test_no_part_of_a_batch_has_two_attempts_of_one_job(ids, parts):
    batch = [(SimpleNamespace(job=SimpleNamespace(id=job_id)), None) for job_id in ids]

    found = without_repeats(batch)

    assert [[attempt.job.id for attempt, _ in part] for part in found] == parts


def claim(connection):
    """Return an attempt that has just been claimed."""
    (job,) = claim_jobs(connection).jobs
    return Attempt(job, context_of(job, WORKER, threading.Event()), "threads")
