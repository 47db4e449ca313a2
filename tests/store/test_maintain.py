"""Reaping, expiring, presence and leadership."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.utils.module_loading import import_string

from django_pgjobs.models import ActiveJob, CompletedJob, JobAttempt, JobWorker
from django_pgjobs.states import JobStatus
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.maintain import (
    expire_jobs,
    forget_lost_workers,
    forget_worker,
    grant_grace,
    read_clock,
    record_worker,
    resign_leadership,
    take_leadership,
)
from tests import factories
from tests.factories import WORKER
from tests.fix_database import wait_until_blocked
from tests.invariants import check_invariants

from .calls import claim_jobs, complete, end, reap, renew, resolve

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")


class TestReapLeases:
    """Attempts whose worker does not answer."""

    def test_a_lost_attempt_is_recorded_and_its_job_runs_again_at_once(self):
        job = factories.running_job(lease_expired_by=MINUTE)
        now = factories.server_now()

        (reaped,) = reap(connection, now=now)

        job.refresh_from_db()
        row = JobAttempt.objects.get()
        assert (reaped.id, reaped.worker_id, reaped.status) == (job.id, WORKER, "failed")
        assert (reaped.job_name, reaped.queue_name, reaped.attempt) == ("tests.noop", "default", 1)
        assert (job.status, job.attempt, job.scheduled_at) == (JobStatus.FAILED, 1, now)
        assert (row.outcome, row.claim, row.worker_id) == ("lost", 1, WORKER)
        assert row.finished_at == now
        assert import_string(row.error_class).__name__ == "LeaseLost"

    def test_losses_of_jobs_of_one_name_share_a_fingerprint(self):
        for name in ("tests.é", "tests.é", "tests.b"):
            factories.running_job(
                job_name=name, attempt=1, max_attempts=1, lease_expired_by=MINUTE
            )

        reap(connection)

        prints = dict(JobAttempt.objects.values_list("job_name", "fingerprint").distinct())
        assert len(set(prints.values())) == len(prints) == 2
        assert prints == dict(CompletedJob.objects.values_list("job_name", "fingerprint"))
        assert all(re.fullmatch("[0-9a-f]{16}", value) for value in prints.values())

    def test_an_attempt_that_was_lost_alone_counts(self):
        job = factories.running_job(lease_expired_by=MINUTE)
        factories.running_job(worker="worker-b")

        reap(connection)

        job.refresh_from_db()
        assert (job.attempt, job.losses) == (1, 1)

    def test_one_that_was_lost_with_others_is_given_back(self):
        jobs = [factories.running_job(lease_expired_by=MINUTE, attempt=3) for _ in range(2)]
        later = factories.running_job()

        first = reap(connection)
        ActiveJob.objects.filter(pk=later.pk).update(lease_expires=factories.server_now() - MINUTE)
        second = reap(connection)

        # The last of them was alone by then; the record of the others is there.
        assert [row.status for row in (*first, *second)] == ["failed"] * 3
        found = ActiveJob.objects.order_by("id").values_list("attempt", "losses", "claims")
        assert list(found) == [(2, 1, 3), (2, 1, 3), (0, 1, 1)]
        assert JobAttempt.objects.filter(outcome="lost").count() == len(jobs) + 1

    def test_a_job_that_may_run_once_is_not_run_again(self):
        for _ in range(2):
            factories.running_job(lease_expired_by=MINUTE, max_attempts=1)

        assert [row.status for row in reap(connection)] == ["dead", "dead"]

    @pytest.mark.parametrize("attempt", [1, 3])
    def test_a_suspect_that_is_lost_again_is_buried_with_the_reason(self, attempt):
        job = factories.running_job(
            lease_expired_by=MINUTE, losses=2, attempt=attempt, claims=3, max_attempts=25
        )
        other = factories.running_job(lease_expired_by=MINUTE)

        rows = {row.id: row.status for row in reap(connection)}

        finished = CompletedJob.objects.get()
        assert finished.status == JobStatus.DEAD
        assert import_string(finished.error_class).__name__ == "PoisonPill"
        assert finished.error_message == (
            "A poison pill: it was in flight in three lost processes, the last time alone. The "
            f"last was {WORKER}."
        )
        assert rows == {job.id: "dead", other.id: "failed"}

    def test_three_losses_in_company_end_a_job(self, connect):
        raw = connect()
        pill, innocent = factories.pending_jobs(2, max_attempts=2)

        for number in range(3):
            claimed = claim_jobs(raw, worker_id=f"worker-{number}", lease=timedelta(0)).jobs
            if number == 2:
                # The innocent one was run apart, and has done no harm.
                assert {job.losses for job in claimed} == {2}
                (other,) = [job for job in claimed if job.id == innocent.id]
                complete(raw, other, worker="worker-2")
            reap(raw)
            stage_jobs(raw, limit=10)

        assert CompletedJob.objects.get(pk=pill.id).status == JobStatus.DEAD
        assert CompletedJob.objects.get(pk=innocent.id).status == JobStatus.COMPLETED
        assert check_invariants(raw) == []

    def test_further_losses_back_off(self):
        now = factories.server_now()
        delays = []
        for _ in range(20):
            job = factories.running_job(attempt=3, max_attempts=9, lease_expired_by=MINUTE)
            reap(connection, now=now)
            job.refresh_from_db()
            delays.append(job.scheduled_at - now)

        assert timedelta(seconds=3) < max(delays) <= timedelta(seconds=6)

    def test_no_backoff_is_too_long_for_an_interval(self):
        factories.running_job(attempt=40, max_attempts=99, lease_expired_by=MINUTE)

        rows = reap(connection, backoff_base=timedelta(days=30), backoff_cap=timedelta(days=60))

        assert [row.status for row in rows] == ["failed"]

    def test_the_last_attempt_is_buried(self):
        job = factories.running_job(attempt=3, max_attempts=3, lease_expired_by=MINUTE)

        assert [row.status for row in reap(connection)] == ["dead"]

        finished = CompletedJob.objects.get()
        assert (finished.id, finished.status) == (job.id, JobStatus.DEAD)
        assert (finished.fence_token, finished.locked_by) == (job.fence_token, WORKER)
        assert WORKER in finished.error_message
        assert JobAttempt.objects.get(claim=3).outcome == "lost"

    @pytest.mark.parametrize("attempt", [1, 3])
    def test_a_job_whose_cancellation_was_requested_is_cancelled(self, attempt):
        factories.running_job(attempt=attempt, cancel_requested=True, lease_expired_by=MINUTE)

        assert [row.status for row in reap(connection)] == ["cancelled"]

        assert CompletedJob.objects.get().status == JobStatus.CANCELLED
        assert not ActiveJob.objects.exists()

    def test_what_the_reaper_ended_was_not_ended_by_its_worker(self):
        retried = factories.running_job(lease_expired_by=MINUTE)
        cancelled = factories.running_job(cancel_requested=True, lease_expired_by=MINUTE)
        dead = factories.running_job(attempt=3, lease_expired_by=MINUTE)

        reap(connection)

        assert not any(resolve(connection, job) for job in (retried, cancelled, dead))
        assert set(JobAttempt.objects.filter(outcome="lost").values_list("job_id", flat=True)) == {
            retried.id,
            cancelled.id,
            dead.id,
        }

    def test_a_live_lease_is_left_alone(self):
        factories.running_job(lease_expires_in=MINUTE)

        assert reap(connection) == []
        assert not JobAttempt.objects.exists()

    def test_time_can_be_given(self):
        factories.running_job(lease_expires_in=MINUTE)

        assert len(reap(connection, now=factories.server_now() + DAY)) == 1

    def test_no_more_than_the_limit_is_reaped(self):
        for _ in range(3):
            factories.running_job(lease_expired_by=MINUTE)

        assert len(reap(connection, limit=2)) == 2
        assert len(reap(connection, limit=2)) == 1

    def test_a_zombie_can_write_nothing_any_more(self):
        job = factories.running_job(lease_expired_by=MINUTE)
        reap(connection)

        assert complete(connection, job) == []
        assert end(connection, job) == []
        assert not renew(connection, job).is_owned
        assert not CompletedJob.objects.exists()

    def test_a_lease_that_is_just_being_written_is_passed_over(self, connect):
        factories.running_job(lease_expired_by=MINUTE)
        with connect() as other, other.transaction():
            other.execute("UPDATE jobs_active SET lease_expires = now() + interval '1 day'")

            assert reap(connect()) == []
        assert reap(connect()) == []

    def test_a_worker_that_ends_its_attempt_meanwhile_finds_it_lost(self, connect, background):
        job = factories.running_job(lease_expired_by=MINUTE)
        reaper, finisher, observer = connect(), connect(), connect()
        with reaper.transaction():
            reap(reaper)
            completion = background(complete, finisher, job)
            wait_until_blocked(observer, finisher)

        assert completion.result() == []
        assert JobAttempt.objects.get().outcome == "lost"


class TestGrantGrace:
    """After a time in which nobody could renew."""

    def test_short_and_expired_leases_get_more_time(self):
        short = factories.running_job(lease_expires_in=MINUTE)
        expired = factories.running_job(lease_expired_by=MINUTE)
        now = factories.server_now()

        granted = grant_grace(connection, grace=DAY, now=now)

        assert set(granted) == {short.id, expired.id}
        assert set(ActiveJob.objects.values_list("lease_expires", flat=True)) == {now + DAY}

    def test_a_longer_lease_is_left_alone(self):
        job = factories.running_job(lease_expires_in=DAY)

        assert grant_grace(connection, grace=MINUTE) == []
        before, _ = job.lease_expires, job.refresh_from_db()
        assert job.lease_expires == before

    def test_nothing_but_running_jobs_is_touched(self):
        factories.pending_job()
        factories.scheduled_job()

        assert grant_grace(connection, grace=DAY) == []


class TestExpireJobs:
    """Jobs that have not started in time."""

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
    def test_a_job_that_does_not_run_is_cancelled(self, status):
        expires_at = factories.server_now() - MINUTE
        job = factories.ActiveJobFactory(status=status, expires_at=expires_at)

        assert expire_jobs(connection, limit=10) == [job.id]

        finished = CompletedJob.objects.get()
        assert (finished.status, finished.expires_at) == (JobStatus.CANCELLED, expires_at)
        assert finished.error_message.startswith("Expired: not started by ")
        assert not ActiveJob.objects.exists()

    def test_a_running_job_may_go_on(self):
        factories.running_job(expires_at=factories.server_now() - MINUTE)

        assert expire_jobs(connection, limit=10) == []

    def test_a_job_whose_deadline_is_ahead_stays(self):
        now = factories.server_now()
        factories.pending_job(expires_at=now + MINUTE)

        assert expire_jobs(connection, limit=10) == []
        assert len(expire_jobs(connection, limit=10, now=now + DAY)) == 1

    def test_the_longest_expired_go_first_up_to_the_limit(self):
        now = factories.server_now()
        factories.pending_job(expires_at=now - MINUTE)
        first = factories.pending_job(expires_at=now - DAY)

        assert expire_jobs(connection, limit=1) == [first.id]

    def test_a_job_that_is_just_being_claimed_is_passed_over(self, connect):
        factories.pending_job(expires_at=factories.server_now() - MINUTE)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active FOR NO KEY UPDATE")

            assert expire_jobs(connect(), limit=10) == []


ALIVE = {
    "worker_id": WORKER,
    "hostname": "host",
    "pid": 1,
    "queues": ["default", "mail"],
    "concurrency": 4,
}


class TestPresence:
    """Which workers there are."""

    def test_a_worker_is_recorded_and_kept_up_to_date(self):
        record_worker(connection, **ALIVE, running=0)
        first = JobWorker.objects.get()

        record_worker(connection, **ALIVE, running=3)

        worker = JobWorker.objects.get()
        assert (worker.queues, worker.concurrency, worker.running) == (["default", "mail"], 4, 3)
        assert worker.started_at == first.started_at
        assert worker.heartbeat_at > first.heartbeat_at

    def test_a_worker_that_stops_is_forgotten(self):
        record_worker(connection, **ALIVE, running=0)

        forget_worker(connection, worker_id="worker-b")
        assert JobWorker.objects.exists()
        forget_worker(connection, worker_id=WORKER)
        assert not JobWorker.objects.exists()

    def test_only_a_silent_worker_is_forgotten(self):
        record_worker(connection, **ALIVE, running=0)

        assert forget_lost_workers(connection, silence=MINUTE) == []
        assert forget_lost_workers(connection, silence=-MINUTE) == [WORKER]


class TestLeadership:
    """One leader at a time."""

    def take(self, leader, term=MINUTE, name="maintenance"):
        return take_leadership(connection, name=name, leader_id=leader, term=term)

    def test_the_first_leads_and_stays_leader(self):
        assert self.take("a")
        assert not self.take("b")
        assert self.take("a")

    def test_another_name_is_another_office(self):
        assert self.take("a")
        assert self.take("b", name="other")

    def test_a_term_that_is_over_is_free(self):
        assert self.take("a", term=-MINUTE)
        assert self.take("b")
        assert not self.take("a")

    def test_who_resigns_makes_room_and_only_for_himself(self):
        assert self.take("a")

        resign_leadership(connection, name="maintenance", leader_id="b")
        assert not self.take("b")
        resign_leadership(connection, name="maintenance", leader_id="a")
        assert self.take("b")


def test_the_clock_is_the_servers():
    clock = read_clock(connection)

    assert clock.now <= factories.server_now()
    assert clock.uptime > timedelta(0)
