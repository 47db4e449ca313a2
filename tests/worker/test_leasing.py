"""The heartbeat, step by step, without its thread."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from django_pgjobs.administration import operations
from django_pgjobs.models import ActiveJob
from django_pgjobs.store.connecting import Session
from django_pgjobs.worker.attempts import Attempt, AttemptsInHand, context_of
from django_pgjobs.worker.capacity import Load
from django_pgjobs.worker.leasing import Heartbeat
from tests import factories
from tests.factories import WORKER
from tests.store.calls import claim_jobs, complete


@pytest.fixture
def in_hand():
    return AttemptsInHand({"threads": Load(10)})


@pytest.fixture
def unwanted():
    """Return the attempts that the pools were told not to be wanted."""
    return []


@pytest.fixture
def heartbeat(tables, in_hand, unwanted):
    session = Session("default", "pgjobs test")
    yield Heartbeat(
        session=session,
        worker_id=WORKER,
        in_hand=in_hand,
        lease=timedelta(minutes=5),
        interval=timedelta(seconds=30),
        look_interval=timedelta(seconds=1),
        queues=lambda: ["default"],
        concurrency=10,
        channel=None,
        on_unwanted=unwanted.append,
        on_isolation=lambda: None,
    )
    session.close()


@pytest.fixture
def attempt(connection, in_hand):
    """Return an attempt that has just been claimed."""
    factories.pending_job()
    (job,) = claim_jobs(connection).jobs
    attempt = Attempt(job, context_of(job, WORKER, threading.Event()), "threads")
    in_hand.add([attempt])
    return attempt


def test_what_a_handler_says_is_kept_with_its_job(heartbeat, attempt):
    heartbeat.beat()
    assert ActiveJob.objects.get().progress is None

    attempt.context.progress(40, 100, "pages")
    heartbeat.beat()

    assert ActiveJob.objects.get().progress == {"current": 40, "total": 100, "message": "pages"}


def test_a_lease_is_renewed_only_while_progress_moves(heartbeat, attempt, connection):
    def beat():
        connection.execute("UPDATE jobs_active SET lease_expires = now() + interval '1 minute'")
        heartbeat.beat()
        return ActiveJob.objects.get().lease_expires > factories.server_now() + timedelta(
            minutes=2
        )

    # Waiting for a place, it has not begun and cannot stand still.
    was_renewed = [beat()]
    attempt.context.begin(None, timedelta(microseconds=1))
    was_renewed.append(beat())
    attempt.context.begin(None, timedelta(hours=1))
    was_renewed.append(beat())

    assert was_renewed == [True, False, True]


def test_the_second_look_hears_of_a_cancellation(heartbeat, attempt, unwanted):
    operations.cancel(None, [attempt.job.id], reason="enough")

    heartbeat.look()
    assert not attempt.context.is_cancelled
    heartbeat.look()

    assert attempt.context.is_cancelled
    assert not attempt.is_lost
    assert unwanted == [attempt]


def test_the_second_look_hears_of_a_loss(heartbeat, attempt, connection, unwanted):
    connection.execute("DELETE FROM jobs_active")

    heartbeat.look()
    heartbeat.look()

    assert attempt.is_lost
    assert unwanted == [attempt]


@pytest.mark.parametrize("step", ["look", "beat"])
def test_a_success_that_the_handler_has_recorded_is_no_loss(heartbeat, attempt, connection, step):
    """An atomic job commits it before the worker hears of it."""
    heartbeat.look()
    complete(connection, attempt.job)

    getattr(heartbeat, step)()

    assert not attempt.is_lost


def test_of_an_attempt_that_has_ended_nothing_is_asked(heartbeat, attempt, connection, unwanted):
    heartbeat.look()
    attempt.has_ended = True
    connection.execute("DELETE FROM jobs_active")

    heartbeat.look()
    heartbeat.beat()

    assert not attempt.is_lost
    assert unwanted == []
