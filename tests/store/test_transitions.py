"""Every legal transition of a job, by the statement that makes it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.models import ActiveJob, CompletedJob
from django_pgjobs.states import TRANSITIONS, JobStatus, Outcome
from django_pgjobs.store.administer import cancel_jobs, redrive_jobs
from django_pgjobs.store.breakers import release_held_jobs
from django_pgjobs.store.claim import stage_jobs
from tests import factories
from tests.invariants import check_invariants

from .calls import claim_jobs, complete, end, reap

PAST = timedelta(minutes=-1)
LAST = {"attempt": 3, "max_attempts": 3}

# What puts a job into these waits for jobs that wait for others.
NOT_YET = {("blocked", "scheduled"), ("blocked", "dead")}


def cancel(connection, job):
    cancel_jobs(connection, [job.id], reason="")


def stage(connection, job):
    stage_jobs(connection, limit=10)


def claim(connection, job):
    claim_jobs(connection)


def hold(connection, job):
    factories.BreakerFactory(state="open")
    claim_jobs(connection)


def release(connection, job):
    release_held_jobs(connection, breaker="bank", limit=10)


def redrive(connection, job):
    redrive_jobs(connection, [job.id])


def ending(outcome):
    return lambda connection, job: end(connection, job, outcome)


def waiting(status):
    return lambda **fields: factories.waiting_job(status, due_in=PAST, **fields)


STARTS = {
    "scheduled": waiting(JobStatus.SCHEDULED),
    "failed": lambda: factories.failed_job(
        due_in=PAST, created_at=factories.server_now() + 60 * PAST
    ),
    "retryable": waiting(JobStatus.RETRYABLE),
    "blocked": lambda: factories.ActiveJobFactory(status="blocked", held_by="bank"),
    "pending": factories.pending_job,
    "running": factories.running_job,
    "completed": factories.completed_job,
    "dead": factories.dead_job,
    "cancelled": factories.cancelled_job,
}

#: How a job gets from one to the other: each way that there is.
WAYS = {
    ("scheduled", "pending"): [stage],
    ("failed", "pending"): [stage],
    ("retryable", "pending"): [stage],
    ("blocked", "pending"): [release],
    ("pending", "running"): [claim],
    ("pending", "blocked"): [hold],
    ("running", "completed"): [complete],
    ("running", "failed"): [ending(Outcome.FAILED), ending(Outcome.TIMEOUT)],
    ("running", "retryable"): [ending(Outcome.SNOOZED), ending(Outcome.RELEASED)],
    ("running", "cancelled"): [ending(Outcome.CANCELLED)],
    ("running", "dead"): [lambda c, job: end(c, job, is_retryable=False)],
    ("dead", "pending"): [redrive],
    ("cancelled", "pending"): [redrive],
    **{
        (status, "cancelled"): [cancel]
        for status in ("scheduled", "failed", "retryable", "blocked", "pending")
    },
}


def status_of(job):
    for model in (ActiveJob, CompletedJob):
        found = model.objects.filter(pk=job.pk).values_list("status", flat=True)
        if found:
            return str(found[0])
    return None


@pytest.mark.parametrize(
    ("start", "target", "way"),
    [
        pytest.param(start, target, way, id=f"{start}-{target}-{number}")
        for (start, target), ways in WAYS.items()
        for number, way in enumerate(ways)
    ],
)
def test_a_legal_transition(connection, start, target, way):
    job = STARTS[start]()

    way(connection, job)

    assert status_of(job) == target
    assert check_invariants(connection) == []


def test_the_ways_are_those_of_the_table():
    legal = {(start.value, to.value) for start, after in TRANSITIONS.items() for to in after}

    assert set(WAYS) == legal - NOT_YET


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({}, "failed"),
        (LAST, "dead"),
        ({"losses": 2}, "dead"),
        ({"cancel_requested": True}, "cancelled"),
    ],
    ids=str,
)
def test_a_lost_job_goes_the_way_that_its_row_says(connection, fields, target):
    job = factories.running_job(lease_expired_by=-PAST, **fields)

    reap(connection)

    assert status_of(job) == target


#: How an owner may end an attempt.
ENDS = {"complete": complete} | {
    outcome.value: ending(outcome) for outcome in Outcome if outcome != Outcome.COMPLETED
}


@pytest.mark.parametrize("name", ENDS)
def test_a_running_job_whose_stop_was_asked_for_ends_as_cancelled(connection, name):
    job = factories.running_job(cancel_requested=True)

    ENDS[name](connection, job)

    assert status_of(job) == "cancelled"


@pytest.mark.parametrize("start", [status for status in STARTS if status != "running"])
def test_nobody_ends_what_does_not_run(connection, start):
    job = STARTS[start]()
    job.fence_token = job.fence_token or 1

    for end_it in ENDS.values():
        end_it(connection, job)
    reap(connection)

    assert status_of(job) == start


# A twin


def test_a_job_that_waits_for_its_retry_keeps_its_key(connection):
    """So a second one cannot overtake it, and neither is ever stuck."""
    from django_pgjobs.producer.enqueueing import enqueue_one

    from .test_enqueue import new_job

    first = enqueue_one(new_job(idempotency_key="k"))
    (claimed,) = claim_jobs(connection).jobs
    end(connection, claimed, delay=timedelta(0))

    twin = enqueue_one(new_job(idempotency_key="k"))
    stage_jobs(connection, limit=10)
    other = enqueue_one(new_job(idempotency_key="other"))
    again = claim_jobs(connection).jobs

    assert (twin.id, twin.created) == (first.id, False)
    assert [job.id for job in again] == [first.id, other.id]
    complete(connection, *again)
    assert enqueue_one(new_job(idempotency_key="k")).created
