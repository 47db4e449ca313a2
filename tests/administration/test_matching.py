"""Acts on all jobs that match a filter."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.contrib.auth import get_user_model

from django_pgjobs.administration import filters, operations
from django_pgjobs.administration.filters import UnfinishedFilter, UnsuccessfulFilter
from django_pgjobs.administration.operations import Cancellation, Redrive
from django_pgjobs.administration.pacing import paced
from django_pgjobs.exceptions import OperationError, PermissionRequired
from django_pgjobs.models import ActiveJob, CompletedJob
from django_pgjobs.producer.waking import awake
from django_pgjobs.states import JobStatus
from tests import factories
from tests.producer.test_waking import add_worker
from tests.store.calls import claim_jobs, end

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def small_parts(monkeypatch):
    """Look at three rows at a time, and act on two."""
    monkeypatch.setattr(filters, "EXAMINED_AT_MOST", 3)
    monkeypatch.setattr(operations, "BATCH", 2)


def redrive(**wanted):
    return Redrive.sum(operations.redrive_matching(None, UnsuccessfulFilter(**wanted)))


def cancel(**wanted):
    return Cancellation.sum(operations.cancel_matching(None, UnfinishedFilter(**wanted)))


def ids(jobs):
    return [job.id for job in jobs]


# Redriving


@pytest.mark.parametrize(
    ("wanted", "fields", "others"),
    [
        ({"job": "a"}, {"job_name": "a"}, {"job_name": "b"}),
        ({"queue": "a"}, {"queue_name": "a"}, {"queue_name": "b"}),
        ({"tenant": 3}, {"tenant_id": 3}, {"tenant_id": 0}),
        ({"tenant": 0}, {"tenant_id": 0}, {"tenant_id": 3}),
        ({"fingerprint": "f"}, {"fingerprint": "f"}, {"fingerprint": None}),
        ({"status": "cancelled"}, {"status": "cancelled"}, {}),
        ({}, {}, {"status": "cancelled"}),
    ],
    ids=str,
)
def test_what_matches_is_redriven_and_nothing_else(small_parts, wanted, fields, others):
    wanted_jobs = [factories.dead_job(**fields) for _ in range(5)]
    other_jobs = [factories.dead_job(**others) for _ in range(5)]
    factories.completed_job(**{**fields, "status": JobStatus.COMPLETED})

    done = redrive(**wanted)

    assert done.redriven == ids(wanted_jobs)
    assert sorted(ActiveJob.objects.values_list("id", flat=True)) == ids(wanted_jobs)
    assert CompletedJob.objects.filter(id__in=ids(other_jobs)).count() == 5


def test_a_time_is_of_the_end_of_a_job():
    now = factories.server_now()
    old, new = (factories.dead_job(completed_at=now - hours * HOUR) for hours in (3, 1))

    assert redrive(until=now - 2 * HOUR).redriven == [old.id]
    assert redrive(since=now - 2 * HOUR, until=now - HOUR).redriven == []
    assert redrive(since=now - HOUR).redriven == [new.id]


def test_conditions_add_up():
    job = factories.dead_job(job_name="a", tenant_id=3)
    factories.dead_job(job_name="a", tenant_id=4)
    factories.dead_job(job_name="b", tenant_id=3)

    assert redrive(job="a", tenant=3).redriven == [job.id]


def test_conflicts_are_told_and_stop_nothing(small_parts):
    factories.pending_job(idempotency_key="k")
    jobs = [factories.dead_job(idempotency_key=key) for key in ("a", "k", "b", "c")]

    done = redrive()

    assert done.conflicting == [jobs[1].id]
    assert done.redriven == [jobs[0].id, jobs[2].id, jobs[3].id]


def test_attempts_are_reset_and_lineage_is_kept():
    job = factories.dead_job(generation=4)

    redrive()

    back = ActiveJob.objects.get()
    assert (back.attempt, back.claims, back.generation) == (0, job.claims, 5)


def test_what_fails_again_meanwhile_is_not_redriven_twice(small_parts, tables, connect):
    factories.dead_job(max_attempts=1)
    factories.dead_job()
    factories.dead_job()
    raw = connect()
    parts = operations.redrive_matching(None, UnsuccessfulFilter())
    next(parts)

    for job in claim_jobs(raw, limit=1).jobs:
        end(raw, job, is_retryable=False)

    assert len(Redrive.sum(parts).redriven) == 1
    assert CompletedJob.objects.filter(status="dead").count() == 1


def test_jobs_that_die_after_the_beginning_are_left_alone(small_parts):
    first = factories.dead_job()
    factories.dead_job()
    parts = operations.redrive_matching(None, UnsuccessfulFilter(), batch_size=1)

    done = [next(parts)]
    later = factories.dead_job()

    assert Redrive.sum([*done, *parts]).redriven == [first.id, first.id + 1]
    assert CompletedJob.objects.get() == later


def test_a_sleeping_worker_is_woken_for_what_is_redriven(tables, connect):
    listener = connect()
    add_worker(listener, "a")
    listener.execute("LISTEN channel_a")
    factories.dead_job()
    awake.forget()

    redrive()

    assert [n.channel for n in listener.notifies(timeout=5, stop_after=1)] == ["channel_a"]


def test_counting_changes_nothing(small_parts):
    for _ in range(7):
        factories.dead_job(job_name="a")
    factories.dead_job(job_name="b")

    assert operations.count_matching(UnsuccessfulFilter(job="a")) == 7
    assert CompletedJob.objects.count() == 8


# Cancelling


@pytest.mark.parametrize(
    ("wanted", "fields", "others"),
    [
        ({"job": "a"}, {"job_name": "a"}, {"job_name": "b"}),
        ({"queue": "a"}, {"queue_name": "a"}, {"queue_name": "b"}),
        ({"tenant": 3}, {"tenant_id": 3}, {"tenant_id": 0}),
        ({"status": "blocked"}, {"status": "blocked"}, {}),
    ],
    ids=str,
)
def test_what_matches_is_cancelled_and_nothing_else(small_parts, wanted, fields, others):
    wanted_jobs = factories.pending_jobs(5, **fields)
    other_jobs = factories.pending_jobs(5, **others)

    done = cancel(**wanted)

    assert done.cancelled == ids(wanted_jobs)
    assert sorted(ActiveJob.objects.values_list("id", flat=True)) == ids(other_jobs)


def test_running_jobs_that_match_are_asked_to_stop():
    waiting, running = factories.scheduled_job(), factories.running_job()

    done = cancel()

    assert (done.cancelled, done.requested) == ([waiting.id], [running.id])


def test_a_time_is_of_the_enqueue_of_a_job():
    now = factories.server_now()
    old, new = (factories.pending_job(created_at=now - hours * HOUR) for hours in (3, 1))

    assert cancel(until=now - 2 * HOUR).cancelled == [old.id]
    assert cancel(since=now - HOUR).cancelled == [new.id]


def test_jobs_enqueued_after_the_beginning_are_not_cancelled(small_parts):
    jobs = factories.pending_jobs(4)
    parts = operations.cancel_matching(None, UnfinishedFilter())

    done = [next(parts)]
    later = factories.pending_job()

    assert Cancellation.sum([*done, *parts]).cancelled == ids(jobs)
    assert ActiveJob.objects.get() == later


def test_nothing_happens_until_somebody_iterates():
    factories.pending_job()

    operations.cancel_matching(None, UnfinishedFilter())

    assert ActiveJob.objects.count() == 1


# Refusals


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (operations.cancel_matching, UnfinishedFilter()),
        (operations.redrive_matching, UnsuccessfulFilter()),
    ],
)
def test_the_permission_is_asked_for_at_once(act, wanted):
    user = get_user_model().objects.create_user("ada")

    with pytest.raises(PermissionRequired):
        act(user, wanted)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (UnfinishedFilter, {"job": ""}, "job must be text of 1 to 255 bytes, not ''."),
        (UnfinishedFilter, {"queue": "a\x00"}, "queue must be text of 1 to 255 bytes, not 'a\\x"),
        (UnfinishedFilter, {"tenant": "3"}, "tenant must be a whole number, not '3'."),
        (UnfinishedFilter, {"tenant": 2**63}, "tenant must be a whole number"),
        (UnfinishedFilter, {"status": "dead"}, "status must be one of blocked, failed, pending"),
        (UnsuccessfulFilter, {"status": "pending"}, "status must be one of cancelled, dead, not"),
        (UnsuccessfulFilter, {"status": None}, "status must be one of cancelled, dead, not None."),
        (UnsuccessfulFilter, {"fingerprint": 7}, "fingerprint must be text"),
        (UnsuccessfulFilter, {"since": datetime(2026, 1, 1)}, "since must be an aware datetime"),
        (UnsuccessfulFilter, {"until": "now"}, "until must be an aware datetime, not 'now'."),
    ],
    ids=repr,
)
def test_a_filter_that_makes_no_sense_is_refused(kind, values, message):
    with pytest.raises(OperationError) as refused:
        kind(**values)

    assert str(refused.value).startswith(message)


# Pace


def test_items_come_at_the_rate_asked_for():
    waits, now = [], [100.0]

    def wait(seconds):
        waits.append(seconds)
        now[0] += seconds

    for part in paced([[1, 2], [3, 4], [5]], 2.0, size=len, clock=lambda: now[0], wait=wait):
        now[0] += 0.25 * len(part)

    assert waits == [0.5, 0.5, 0.25]
    assert now[0] == 102.5


def test_without_a_rate_nobody_waits():
    parts = paced([[1]] * 3, None, size=len, wait=lambda seconds: pytest.fail("waited"))

    assert len(list(parts)) == 3
