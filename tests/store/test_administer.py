"""What operators do to jobs: cancel and redrive."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob, CompletedJob, JobAttempt
from django_pgjobs.states import JobStatus, Outcome
from django_pgjobs.store.administer import cancel_jobs, redrive_jobs
from tests import factories
from tests.fix_database import FIRST_EPOCHS, wait_until_blocked
from tests.invariants import check_invariants

from .calls import claim_jobs, end

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value(FIRST_EPOCHS)


def cancel(connection, *jobs):
    rows = cancel_jobs(connection, [job.id for job in jobs], reason="not needed")
    return {row.id: row.status for row in rows}


def redrive(connection, *jobs):
    return {row.id: row.is_redriven for row in redrive_jobs(connection, [job.id for job in jobs])}


class TestCancelJobs:
    """Jobs that should not run."""

    @pytest.mark.parametrize(
        "status",
        [
            JobStatus.PENDING,
            JobStatus.SCHEDULED,
            JobStatus.FAILED,
            JobStatus.RETRYABLE,
            JobStatus.BLOCKED,
        ],
    )
    def test_a_job_that_does_not_run_moves_to_history(self, status):
        job = factories.ActiveJobFactory(status=status, payload={"order": 7})

        assert cancel(connection, job) == {job.id: "cancelled"}

        finished = CompletedJob.objects.get()
        assert (finished.status, finished.error_message) == ("cancelled", "not needed")
        assert (finished.id, finished.payload) == (job.id, {"order": 7})
        assert not ActiveJob.objects.exists()
        assert not JobAttempt.objects.exists()

    def test_a_running_job_is_asked_to_stop(self):
        job = factories.running_job()

        assert cancel(connection, job) == {job.id: "running"}

        job.refresh_from_db()
        assert (job.status, job.cancel_requested) == (JobStatus.RUNNING, True)

    def test_a_finished_or_unknown_job_is_not_in_the_answer(self):
        job = factories.completed_job()

        assert cancel(connection, job) == {}
        assert cancel_jobs(connection, [0], reason="") == []

    def test_other_jobs_are_left_alone(self):
        factories.pending_job()
        job = factories.pending_job()

        cancel(connection, job)

        assert ActiveJob.objects.count() == 1

    def test_a_locked_row_is_not_waited_for(self, connect):
        job, other_job = factories.pending_jobs(2)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active WHERE id = %s FOR UPDATE", [job.id])

            assert cancel(connect(), job, other_job) == {other_job.id: "cancelled"}


class TestRedriveJobs:
    """Dead and cancelled jobs that should run again."""

    def test_the_row_moves_back_under_its_id_with_all_attempts(self):
        job = factories.dead_job(
            tenant_id=5, queue_name="mail", priority=3, payload={"order": 7}, generation=1
        )
        JobAttempt.objects.update(generation=1)
        factories.query_value("SELECT setval('jobs_epoch', 6)")

        assert redrive(connection, job) == {job.id: True}

        back = ActiveJob.objects.get()
        assert (back.id, back.status, back.epoch) == (job.id, JobStatus.PENDING, 6)
        assert (back.attempt, back.max_attempts, back.claims) == (0, 3, 3)
        assert (back.generation, back.priority, back.payload) == (2, 3, {"order": 7})
        assert (back.tenant_id, back.queue_name) == (5, "mail")
        assert back.created_at == job.created_at
        assert not CompletedJob.objects.exists()
        assert JobAttempt.objects.count() == 3

    def test_a_cancelled_job_can_run_after_all(self):
        job = factories.cancelled_job(expires_at=factories.server_now() - MINUTE)

        assert redrive(connection, job) == {job.id: True}
        assert ActiveJob.objects.get().expires_at is None
        assert len(claim_jobs(connection).jobs) == 1

    def test_a_poison_pill_stays_a_suspect(self):
        pill = factories.dead_job(error_class="django_pgjobs.exceptions.PoisonPill")
        other = factories.dead_job()

        redrive(connection, pill, other)

        assert dict(ActiveJob.objects.values_list("id", "losses")) == {pill.id: 2, other.id: 0}

    def test_a_successful_job_cannot(self):
        assert redrive(connection, factories.completed_job()) == {}

    def test_an_unknown_or_active_job_is_not_in_the_answer(self):
        assert redrive(connection, factories.pending_job()) == {}
        assert redrive_jobs(connection, [0]) == []

    def test_a_job_whose_key_is_taken_stays_where_it_is(self):
        job = factories.dead_job(idempotency_key="k")
        factories.pending_job(idempotency_key="k")

        assert redrive(connection, job) == {job.id: False}
        assert CompletedJob.objects.get().id == job.id

    def test_of_two_jobs_with_one_key_one_is_redriven(self):
        jobs = [factories.dead_job(idempotency_key="k") for _ in range(2)]

        answer = redrive(connection, *jobs)

        assert sorted(answer.values()) == [False, True]
        assert CompletedJob.objects.count() == 1

    def test_its_attempts_go_on_counting(self, connect):
        job = factories.dead_job()
        raw = connect()
        redrive(raw, job)

        (claimed,) = claim_jobs(raw).jobs
        end(raw, claimed, Outcome.FAILED)

        assert (claimed.attempt, claimed.claims) == (1, 4)
        assert sorted(JobAttempt.objects.values_list("claim", "generation")) == [
            (1, 0),
            (2, 0),
            (3, 0),
            (4, 1),
        ]
        assert check_invariants(raw) == []

    def test_two_at_once_redrive_it_once(self, connect, background):
        job = factories.dead_job()
        first, second, observer = connect(), connect(), connect()
        with first.transaction():
            redrive(first, job)
            waiting = background(redrive, second, job)
            wait_until_blocked(observer, second)

        assert waiting.result() == {}
        assert ActiveJob.objects.get().generation == 1
