"""Ending attempts under the fence: by their owner, once, and in one statement."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob, CompletedJob, JobAttempt
from django_pgjobs.states import JobStatus, Outcome
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.finish import (
    Ending,
    Success,
    complete_jobs,
    end_attempts,
    renew_leases,
    resolve_attempts,
)
from tests import factories
from tests.factories import WORKER
from tests.fix_database import wait_until_blocked

from .calls import BACKOFF, LEASE, check, claim_jobs, complete, end, reap, renew, resolve

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")


def renewed(connection, job, **values):
    return [job.id] if renew(connection, job, **values).is_owned else []


def ended(connection, job, **values):
    return [row.id for row in end(connection, job, **values)]


FINISHING = pytest.mark.parametrize("finish", [complete, ended, renewed])


@FINISHING
class TestFence:
    """Nobody but the owner of a running attempt may write anything."""

    def test_the_owner_may(self, finish):
        job = factories.running_job()

        assert finish(connection, job) == [job.id]

    def test_a_stale_token_may_not(self, finish):
        job = factories.running_job()
        before = ActiveJob.objects.values().get()
        job.fence_token -= 1

        assert finish(connection, job) == []
        assert ActiveJob.objects.values().get() == before
        assert_nothing_recorded()

    def test_another_worker_with_the_same_token_may_not(self, finish):
        """A token may be issued again, to another worker, after an asynchronous failover."""
        job = factories.running_job(worker="worker-b")
        before = ActiveJob.objects.values().get()

        assert finish(connection, job, worker="worker-a") == []
        assert ActiveJob.objects.values().get() == before
        assert_nothing_recorded()

    def test_a_job_that_does_not_run_may_not(self, finish):
        """The CHECK on leases forbids such a row; the fence does not lean on it."""
        job = factories.running_job()
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobs_active DROP CONSTRAINT jobs_active_lease")
            cursor.execute("UPDATE jobs_active SET status = 'pending'")

        assert finish(connection, job) == []
        assert ActiveJob.objects.get().status == JobStatus.PENDING
        assert_nothing_recorded()

    def test_a_job_that_is_gone_is_not_missed(self, finish):
        job = factories.completed_job()

        assert finish(connection, job) == []

    def test_losing_one_lease_does_not_cost_its_siblings_theirs(self, finish):
        lost, kept = factories.running_job(), factories.running_job()
        lost.fence_token += 1

        assert [*finish(connection, lost), *finish(connection, kept)] == [kept.id]


def assert_nothing_recorded():
    assert not CompletedJob.objects.exists()
    assert not JobAttempt.objects.exists()


class TestCompleteJobs:
    """Success."""

    def test_the_whole_row_moves_to_history(self):
        job = factories.running_job(
            attempt=2,
            tenant_id=5,
            queue_name="mail",
            priority=3,
            payload={"order": 7},
            payload_version=2,
            idempotency_key="k",
            group_key="g",
            meta={"tags": ["x"]},
            expires_at=factories.server_now(),
            generation=0,
        )

        complete(connection, job, result='{"sent": true}')

        finished = CompletedJob.objects.get()
        kept = {field.name for field in CompletedJob._meta.fields} - {
            "status",
            "completed_at",
            "error_class",
            "error_message",
            "fingerprint",
            "result",
        }
        assert {name: getattr(finished, name) for name in kept} == {
            name: getattr(job, name) for name in kept
        }
        assert (finished.status, finished.result) == (JobStatus.COMPLETED, {"sent": True})
        assert job.locked_at < finished.completed_at <= factories.server_now()
        assert not ActiveJob.objects.exists()

    def test_a_success_is_not_written_twice(self):
        job = factories.running_job()

        complete(connection, job)

        assert not JobAttempt.objects.exists()
        assert complete(connection, job) == []
        assert CompletedJob.objects.count() == 1

    def test_many_are_recorded_at_once_each_with_its_result(self):
        jobs = [factories.running_job() for _ in range(5)]
        successes = [Success(job.id, job.fence_token, str(job.id)) for job in reversed(jobs)]

        written = complete_jobs(connection, successes, worker_id=WORKER)

        assert written == dict.fromkeys((job.id for job in jobs), JobStatus.COMPLETED)
        assert all(job.result == job.id for job in CompletedJob.objects.all())

    def test_no_success_is_no_error(self):
        assert complete_jobs(connection, [], worker_id=WORKER) == {}

    def test_a_job_whose_cancellation_was_requested_ends_as_cancelled(self):
        job = factories.running_job(cancel_requested=True)

        success = Success(job.id, job.fence_token, '"done"')
        written = complete_jobs(connection, [success], worker_id=WORKER)

        assert written == {job.id: JobStatus.CANCELLED}
        finished, attempt = CompletedJob.objects.get(), JobAttempt.objects.get()
        assert (finished.status, finished.result) == (JobStatus.CANCELLED, None)
        assert (attempt.outcome, attempt.fence_token) == ("cancelled", job.fence_token)
        assert attempt.finished_at == finished.completed_at

    def test_a_cancellation_that_is_just_being_requested_is_not_missed(self, connect, background):
        job = factories.running_job()
        canceller, finisher, observer = connect(), connect(), connect()
        with canceller.transaction():
            canceller.execute("UPDATE jobs_active SET cancel_requested = true")
            completion = background(complete, finisher, job)
            wait_until_blocked(observer, finisher)

        assert completion.result() == [job.id]
        assert CompletedJob.objects.get().status == JobStatus.CANCELLED

    def test_a_missing_partition_does_not_make_a_job_unfinishable(self):
        job = factories.running_job()
        long_ago = factories.server_now() - timedelta(days=400)

        assert complete(connection, job, now=long_ago) == [job.id]
        assert CompletedJob.objects.get().completed_at == long_ago


class TestEndAttempts:
    """Everything but success."""

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.LOST])
    def test_a_failure_backs_off(self, outcome):
        job = factories.running_job()
        now = factories.server_now()

        assert [row.status for row in end(connection, job, outcome, now=now)] == ["failed"]

        job.refresh_from_db()
        assert (job.status, job.attempt, job.claims) == (JobStatus.FAILED, 1, 1)
        assert now <= job.scheduled_at <= now + BACKOFF["backoff_base"]

    def test_the_attempt_is_recorded(self):
        job = factories.running_job(attempt=2, tenant_id=5, queue_name="mail")
        now = factories.server_now()

        end(
            connection,
            job,
            now=now,
            error_class="ValueError",
            error_message="no",
            traceback="Traceback",
            fingerprint="f",
        )

        row = JobAttempt.objects.get(fence_token=job.fence_token)
        assert (row.job_id, row.tenant_id, row.job_name) == (job.id, 5, "tests.noop")
        assert (row.queue_name, row.worker_id, row.outcome) == ("mail", WORKER, "failed")
        assert (row.claim, row.attempt, row.generation) == (2, 2, 0)
        assert (row.started_at, row.finished_at) == (job.locked_at, now)
        assert (row.error_class, row.error_message) == ("ValueError", "no")
        assert (row.traceback, row.fingerprint) == ("Traceback", "f")

    def test_the_ceiling_of_the_backoff_doubles_up_to_the_cap(self):
        now = factories.server_now()
        delays = {attempt: [] for attempt in (1, 3, 12)}
        for attempt, found in delays.items():
            for _ in range(20):
                job = factories.running_job(attempt=attempt, max_attempts=99)
                end(connection, job, now=now)
                job.refresh_from_db()
                found.append(job.scheduled_at - now)

        for attempt, ceiling in ((1, 2), (3, 8), (12, 600)):
            assert timedelta(0) <= min(delays[attempt])
            # Full jitter: twenty times below the middle is one in a million.
            assert timedelta(seconds=ceiling / 2) < max(delays[attempt])
            assert max(delays[attempt]) <= timedelta(seconds=ceiling)

    @pytest.mark.parametrize("base", [timedelta(days=30), timedelta(hours=9)])
    def test_no_backoff_is_too_long_for_an_interval(self, base):
        job = factories.running_job(attempt=40, max_attempts=99)

        end(connection, job, backoff_base=base, backoff_cap=timedelta(days=60))

        job.refresh_from_db()
        assert job.scheduled_at <= factories.server_now() + timedelta(days=60)

    def test_the_backoff_of_a_job_wins_over_the_workers(self):
        now = factories.server_now()
        job = factories.running_job()
        ending = Ending(
            id=job.id,
            fence_token=job.fence_token,
            outcome=Outcome.FAILED,
            backoff_base=timedelta(0),
            backoff_cap=DAY,
        )

        end_attempts(
            connection, [ending], worker_id=WORKER, backoff_base=DAY, backoff_cap=DAY, now=now
        )

        job.refresh_from_db()
        assert job.scheduled_at == now

    @pytest.mark.parametrize("attempt", [1_000, 9_999])
    @pytest.mark.parametrize("cap", [timedelta(days=36_525), timedelta(microseconds=1)])
    def test_the_delay_is_bounded_for_any_attempt(self, attempt, cap):
        job = factories.running_job(attempt=1, claims=1, max_attempts=10_000)
        ActiveJob.objects.filter(pk=job.pk).update(attempt=attempt, claims=attempt)
        now = factories.server_now()

        end(connection, job, now=now, backoff_base=cap, backoff_cap=cap)

        job.refresh_from_db()
        assert now <= job.scheduled_at <= now + cap

    def test_a_further_delay_is_added_and_random(self):
        now = factories.server_now()
        delays = []
        for _ in range(20):
            job = factories.running_job()
            end(connection, job, now=now, delay=DAY, spread=DAY)
            job.refresh_from_db()
            delays.append(job.scheduled_at - now)

        assert min(delays) >= DAY
        # Twenty times in one half is one in a million.
        assert min(delays) < 1.5 * DAY < max(delays) <= 2 * DAY

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SNOOZED, Outcome.RELEASED])
    def test_an_attempt_that_ends_in_order_clears_its_job(self, outcome):
        job = factories.running_job(losses=2, is_probe=True)

        end(connection, job, outcome)

        job.refresh_from_db()
        assert (job.losses, job.is_probe) == (0, False)

    def test_a_given_delay_wins(self):
        job = factories.running_job()
        now = factories.server_now()

        end(connection, job, now=now, delay=DAY)

        job.refresh_from_db()
        assert job.scheduled_at == now + DAY

    @pytest.mark.parametrize(
        "values", [{"is_retryable": False}, {"outcome": Outcome.TIMEOUT, "is_retryable": False}]
    )
    def test_a_failure_that_is_not_retryable_is_final(self, values):
        job = factories.running_job()

        assert [row.status for row in end(connection, job, **values)] == ["dead"]

        finished = CompletedJob.objects.get()
        assert (finished.status, finished.attempt) == (JobStatus.DEAD, 1)
        assert not ActiveJob.objects.exists()

    def test_the_last_failure_is_final_and_keeps_its_error(self):
        job = factories.running_job(attempt=3, max_attempts=3)

        end(connection, job, error_class="ValueError", error_message="no", fingerprint="f")

        finished = CompletedJob.objects.get()
        attempt = JobAttempt.objects.get(claim=3)
        assert (finished.status, finished.fingerprint) == (JobStatus.DEAD, "f")
        assert (finished.error_class, finished.error_message) == ("ValueError", "no")
        assert finished.fence_token == attempt.fence_token == job.fence_token
        assert finished.completed_at == attempt.finished_at

    @pytest.mark.parametrize("outcome", [Outcome.SNOOZED, Outcome.RELEASED])
    def test_an_attempt_that_was_given_back_does_not_count(self, outcome):
        job = factories.running_job(attempt=3, max_attempts=3)
        now = factories.server_now()

        assert [row.status for row in end(connection, job, outcome, delay=MINUTE, now=now)] == [
            "retryable"
        ]

        job.refresh_from_db()
        assert (job.status, job.attempt, job.claims) == (JobStatus.RETRYABLE, 2, 3)
        assert job.scheduled_at == now + MINUTE
        assert JobAttempt.objects.get(claim=3).outcome == outcome

    def test_a_snoozed_job_can_be_claimed_again_with_the_same_attempt(self):
        job = factories.running_job(attempt=3, max_attempts=3)
        end(connection, job, Outcome.SNOOZED, delay=timedelta(0))

        stage_jobs(connection, limit=10)
        (claimed,) = claim_jobs(connection).jobs

        assert (claimed.attempt, claimed.claims) == (3, 4)

    def test_a_handler_may_cancel(self):
        job = factories.running_job()

        assert [row.status for row in end(connection, job, Outcome.CANCELLED)] == ["cancelled"]

        assert CompletedJob.objects.get().status == JobStatus.CANCELLED
        assert JobAttempt.objects.get().outcome == "cancelled"

    @pytest.mark.parametrize(
        "outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.SNOOZED, Outcome.RELEASED]
    )
    def test_a_requested_cancellation_wins_however_the_attempt_ends(self, outcome):
        job = factories.running_job(cancel_requested=True)

        assert [row.status for row in end(connection, job, outcome)] == ["cancelled"]

        assert CompletedJob.objects.get().status == JobStatus.CANCELLED
        assert JobAttempt.objects.get().outcome == "cancelled"

    def test_a_cancellation_that_is_just_being_requested_is_not_missed(self, connect, background):
        job = factories.running_job()
        canceller, finisher, observer = connect(), connect(), connect()
        with canceller.transaction():
            canceller.execute("UPDATE jobs_active SET cancel_requested = true")
            ending = background(end, finisher, job)
            wait_until_blocked(observer, finisher)

        assert [row.status for row in ending.result()] == ["cancelled"]
        assert not ActiveJob.objects.exists()

    def test_many_endings_of_all_kinds_are_recorded_at_once(self):
        outcomes = [Outcome.FAILED, Outcome.SNOOZED, Outcome.CANCELLED, Outcome.TIMEOUT]
        jobs = [factories.running_job() for _ in outcomes]
        endings = [
            Ending(id=job.id, fence_token=job.fence_token, outcome=outcome)
            for job, outcome in zip(jobs, outcomes, strict=True)
        ]

        rows = end_attempts(connection, endings[::-1], worker_id=WORKER, **BACKOFF)

        assert {row.id: row.status for row in rows} == dict(
            zip(
                [job.id for job in jobs],
                ["failed", "retryable", "cancelled", "failed"],
                strict=True,
            )
        )
        assert JobAttempt.objects.count() == 4

    def test_no_ending_is_no_error(self):
        assert end_attempts(connection, [], worker_id=WORKER, **BACKOFF) == []


class TestCheckLeases:
    """The look at attempts that take long."""

    def test_nothing_is_heard_of_what_is_wanted(self):
        assert check(connection, factories.running_job()) == {}

    def test_a_cancellation_is_heard(self):
        job = factories.running_job(cancel_requested=True)

        assert check(connection, factories.running_job(), job) == {job.id: True}

    def test_a_loss_is_heard(self):
        taken = factories.running_job(worker="worker-b")
        reclaimed = factories.running_job()
        reclaimed.fence_token -= 1
        gone = factories.completed_job()

        heard = check(connection, factories.running_job(), taken, reclaimed, gone)

        assert heard == {taken.id: False, reclaimed.id: False, gone.id: False}

    def test_the_lease_stays_as_it_is(self):
        job = factories.running_job(cancel_requested=True)
        before = job.lease_expires

        check(connection, job)

        job.refresh_from_db()
        assert job.lease_expires == before


class TestRenewLeases:
    """The heartbeat."""

    def test_a_lease_is_extended_from_now(self):
        job = factories.running_job(lease_expires_in=MINUTE)
        now = factories.server_now()

        renewal = renew(connection, job, lease=DAY)

        job.refresh_from_db()
        assert (renewal.is_owned, renewal.cancel_requested) == (True, False)
        assert now + DAY <= job.lease_expires < now + DAY + MINUTE

    def test_an_expired_lease_that_nobody_has_reaped_is_still_owned(self):
        job = factories.running_job(lease_expired_by=MINUTE)

        assert renew(connection, job).is_owned
        job.refresh_from_db()
        assert job.lease_expires > factories.server_now()

    def test_a_lease_is_never_shortened(self):
        job = factories.running_job(lease_expires_in=DAY)
        before = job.lease_expires

        renew(connection, job, lease=MINUTE)

        job.refresh_from_db()
        assert job.lease_expires == before

    def test_the_heartbeat_hears_of_a_cancellation(self):
        job = factories.running_job(cancel_requested=True)

        assert renew(connection, job).cancel_requested

    def test_every_attempt_gets_an_answer(self):
        mine, gone = factories.running_job(), factories.completed_job()
        attempts = [(job.id, job.fence_token) for job in (mine, gone)]

        renewals = renew_leases(connection, attempts, worker_id=WORKER, lease=LEASE)

        assert {row.id: row.is_owned for row in renewals} == {mine.id: True, gone.id: False}

    def test_of_two_attempts_of_one_job_only_the_newer_is_owned(self):
        """A worker may claim again what it has lost, while its old handler still runs."""
        job = factories.running_job()
        old = job.fence_token - 1
        attempts = [(job.id, old), (job.id, job.fence_token)]

        renewals = renew_leases(connection, attempts, worker_id=WORKER, lease=LEASE)

        owned = {renewal.fence_token: renewal.is_owned for renewal in renewals}
        assert owned == {old: False, job.fence_token: True}

    def test_the_lease_of_a_stalled_attempt_is_left_to_expire(self):
        job = factories.running_job(lease_expires_in=MINUTE, cancel_requested=True)
        before = job.lease_expires

        renewal = renew(connection, job, lease=DAY, stalled={job.fence_token})

        job.refresh_from_db()
        assert job.lease_expires == before
        assert (renewal.is_owned, renewal.cancel_requested) == (True, True)

    def test_progress_is_kept_until_something_newer_is_said(self):
        job = factories.running_job()

        renew(connection, job, progress={job.fence_token: '{"current": 3}'})
        renew(connection, job)

        job.refresh_from_db()
        assert job.progress == {"current": 3}

    @pytest.mark.parametrize("finish", [end, lambda connection, job: reap(connection)])
    def test_the_progress_of_an_attempt_ends_with_it(self, finish):
        job = factories.running_job(lease_expired_by=MINUTE, progress={"current": 3})

        finish(connection, job)

        job.refresh_from_db()
        assert (job.status, job.progress) == (JobStatus.FAILED, None)

    def test_a_locked_row_is_not_waited_for_and_not_called_lost(self, connect):
        job = factories.running_job(lease_expires_in=MINUTE)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active FOR UPDATE")

            renewal = renew(connect(), job, lease=DAY)

        job.refresh_from_db()
        assert renewal.is_owned
        assert job.lease_expires < factories.server_now() + DAY

    def test_a_renewal_touches_no_index(self):
        """It may stay on its page: a HOT update, if there is room."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs_active' "
                "AND indexdef LIKE '%%lease_expires%%'",
                [],
            )

            assert cursor.fetchall() == []


class TestResolveAttempts:
    """Lost answers and lost leases."""

    def test_a_success_is_on_record(self):
        job = factories.running_job()
        complete(connection, job)

        assert resolve(connection, job)

    @pytest.mark.parametrize(
        "outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.SNOOZED, Outcome.CANCELLED]
    )
    def test_an_ending_is_on_record(self, outcome):
        job = factories.running_job()
        end(connection, job, outcome)

        assert resolve(connection, job)

    def test_a_cancelled_success_is_on_record(self):
        job = factories.running_job(cancel_requested=True)
        complete(connection, job)

        assert resolve(connection, job)

    def test_the_success_of_a_later_attempt_is_not_this_ones(self):
        job = factories.running_job(attempt=2)
        complete(connection, job)

        assert not resolve(connection, job, fence_token=job.fence_token - 1)

    def test_the_success_of_another_worker_is_not_this_ones(self):
        """After an asynchronous failover a token may be issued twice."""
        job = factories.running_job()
        complete(connection, job)

        assert not resolve(connection, job, worker="worker-b")

    def test_the_ending_of_another_worker_is_not_this_ones(self):
        job = factories.running_job()
        end(connection, job)

        assert not resolve(connection, job, worker="worker-b")

    def test_a_running_attempt_is_not_on_record(self):
        assert not resolve(connection, factories.running_job())

    def test_no_attempt_is_no_error(self):
        assert resolve_attempts(connection, [], worker_id="worker-a") == []
