"""The whole history of a job, wherever its rows are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob, CompletedJob, JobAttempt
from django_pgjobs.states import Outcome
from django_pgjobs.store.administer import redrive_jobs
from tests import factories
from tests.store.calls import claim_jobs, complete, end

pytestmark = pytest.mark.django_db


def outcomes(history):
    return [(attempt.claim, attempt.outcome) for attempt in history.attempts]


def test_of_a_pending_job_there_is_only_the_job():
    job = factories.pending_job()

    history = ActiveJob.objects.history_of(job.id)

    assert (history.job, history.attempts) == (job, [])


def test_a_running_attempt_is_the_last():
    job = factories.running_job(attempt=3)

    history = ActiveJob.objects.history_of(job.id)

    assert outcomes(history) == [(1, "failed"), (2, "failed"), (3, "running")]
    last = history.attempts[-1]
    assert (last.started_at, last.worker_id) == (job.locked_at, job.locked_by)
    assert (last.finished_at, last.duration) == (None, None)


def test_a_success_is_the_last():
    job = factories.running_job(attempt=2, tenant_id=3)
    complete(connection, job)

    history = CompletedJob.objects.history_of(job.id)

    assert history.job == CompletedJob.objects.get()
    assert outcomes(history) == [(1, "failed"), (2, "completed")]
    last = history.attempts[-1]
    assert (last.tenant_id, last.fence_token) == (3, job.fence_token)
    assert last.duration == history.job.completed_at - job.locked_at


def test_a_dead_job_has_no_attempt_beside_those_that_failed():
    job = factories.dead_job()

    history = CompletedJob.objects.history_of(job.id)

    assert outcomes(history) == [(1, "failed"), (2, "failed"), (3, "failed")]


def test_it_goes_on_over_a_redrive():
    job = factories.dead_job(attempt=1)
    redrive_jobs(connection, [job.id])
    (claimed,) = claim_jobs(connection).jobs
    end(connection, claimed, Outcome.SNOOZED, delay=timedelta(0))

    history = ActiveJob.objects.history_of(job.id)

    assert [(row.generation, row.claim, row.outcome) for row in history.attempts] == [
        (0, 1, "failed"),
        (1, 2, "snoozed"),
    ]
    assert history.job.generation == 1


def test_attempts_outlive_a_job_whose_retention_is_over():
    job = factories.dead_job(attempt=1)
    CompletedJob.objects.all().delete()

    history = CompletedJob.objects.history_of(job.id)

    assert (history.job, outcomes(history)) == (None, [(1, "failed")])


def test_an_attempt_knows_how_long_it_took():
    job = factories.dead_job(attempt=2)

    first = JobAttempt.objects.get(job_id=job.id, claim=1)

    assert first.duration == timedelta(milliseconds=500)


def test_of_an_unknown_job_there_is_none():
    assert ActiveJob.objects.history_of(2**62) is None


def test_a_job_that_moves_between_two_looks_is_found(monkeypatch):
    """Redriven after the first look at the unfinished jobs."""
    job = factories.dead_job(attempt=1)
    look = CompletedJob.objects.filter

    def redrive_first(**conditions):
        redrive_jobs(connection, [job.id])
        return look(**conditions)

    monkeypatch.setattr(CompletedJob.objects, "filter", redrive_first)

    assert ActiveJob.objects.history_of(job.id).job == ActiveJob.objects.get()
