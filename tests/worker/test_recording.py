"""Exactly once for what an atomic job does in the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group

from django_pgjobs import JobContext, Retry
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.pools import THREADS
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.exceptions import InvalidHandler
from django_pgjobs.models import ActiveJob, CompletedJob
from django_pgjobs.states import JobStatus, Outcome
from django_pgjobs.worker.attempts import Attempt
from django_pgjobs.worker.execution import Execution
from django_pgjobs.worker.measuring import RunTime
from django_pgjobs.worker.recording import Recorded
from django_pgjobs.worker.timeouts import DeadlineWatch
from tests import factories
from tests.invariants import check_invariants
from tests.worker.claims import claimer


@pytest.fixture
def run(connection):
    """Return a function that claims one job and runs it with an atomic handler."""
    watch = DeadlineWatch()

    def run(function, **fields):
        factories.pending_job(job_name="tests.atomic", **fields)
        (job,) = claimer().claim(connection, 1)
        registry = Registry()
        registry.add(JobDefinition(name="tests.atomic", function=function, atomic=True))
        execution = Execution(
            registry=registry,
            run_time=RunTime(),
            watch=watch,
            grace=timedelta(seconds=10),
            on_overdue=lambda attempt: None,
            max_result_bytes=1000,
            alias="default",
            worker_id="worker-a",
        )
        return execution.run(Attempt(job, JobContext(id=job.id, name=job.job_name), THREADS))

    yield run
    assert check_invariants(connection) == []
    watch.stop()


def test_effect_and_success_commit_together(run):
    def handler():
        Group.objects.create(name="effect")
        # Not yet: an outsider would see neither.
        assert ActiveJob.objects.get().status == JobStatus.RUNNING
        return {"ok": True}

    outcome = run(handler)

    job = CompletedJob.objects.get()
    assert outcome == Recorded(job.id, job.fence_token)
    assert (job.status, job.result) == (JobStatus.COMPLETED, {"ok": True})
    assert Group.objects.count() == 1


@pytest.mark.parametrize("error", [ValueError("no"), Retry("later")])
def test_a_failure_leaves_no_effect(run, error):
    def handler():
        Group.objects.create(name="effect")
        raise error

    outcome = run(handler)

    assert outcome.outcome == Outcome.FAILED
    assert Group.objects.count() == 0
    assert ActiveJob.objects.get().status == JobStatus.RUNNING


def test_an_effect_is_rolled_back_when_the_lease_was_lost(run, connection):
    def handler():
        Group.objects.create(name="effect")
        connection.execute(
            "UPDATE jobs_active SET fence_token = fence_token + 1, locked_by = 'worker-b'"
        )

    outcome = run(handler)

    assert outcome.error_class == "django_pgjobs.exceptions.LeaseLost"
    assert Group.objects.count() == 0
    assert ActiveJob.objects.get().locked_by == "worker-b"


def test_a_job_cancelled_meanwhile_leaves_no_effect(run, connection):
    """It ends as cancelled, and can be redriven: then the effect would be there twice."""

    def handler():
        Group.objects.create(name="effect")
        connection.execute("UPDATE jobs_active SET cancel_requested = true")

    outcome = run(handler)

    assert outcome.outcome == Outcome.CANCELLED
    assert Group.objects.count() == 0
    assert ActiveJob.objects.get().status == JobStatus.RUNNING


def test_a_broken_transaction_is_a_failure(run):
    def handler():
        Group.objects.create(name="effect")
        try:
            Group.objects.create(name="effect")
        except Exception:
            return "swallowed"

    outcome = run(handler)

    assert outcome.outcome == Outcome.FAILED
    assert Group.objects.count() == 0


def test_an_atomic_coroutine_is_refused():
    async def handler():
        pass

    with pytest.raises(InvalidHandler, match="atomic needs a handler defined with def"):
        JobDefinition(name="tests.atomic", function=handler, atomic=True)
