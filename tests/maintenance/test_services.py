"""Stager, expirer, presence: nothing to do, something to do, more than one batch."""

from __future__ import annotations

from datetime import timedelta

from django_pgjobs.maintenance.presence import PresenceKeeper
from django_pgjobs.maintenance.stager import Expirer, Stager
from django_pgjobs.models import ActiveJob, CompletedJob, JobWorker
from django_pgjobs.states import JobStatus
from tests import factories

PAST = timedelta(seconds=-1)


def test_nothing_to_stage(connection):
    factories.scheduled_job()

    report = Stager().run_once(connection, batch_size=10)

    assert (report.notes, report.is_full) == (None, False)


def test_due_jobs_are_staged_whatever_they_waited_for(connection):
    factories.scheduled_job(due_in=PAST)
    factories.failed_job(due_in=PAST)
    factories.waiting_job(JobStatus.RETRYABLE, due_in=PAST)

    report = Stager().run_once(connection, batch_size=10)

    assert report.notes == {"staged": 3}
    assert set(ActiveJob.objects.values_list("status", flat=True)) == {"pending"}


def test_more_than_one_batch_is_staged(connection):
    for _ in range(3):
        factories.scheduled_job(due_in=PAST)

    reports = [Stager().run_once(connection, batch_size=2) for _ in range(2)]

    assert [report.is_full for report in reports] == [True, False]
    assert ActiveJob.objects.pending().count() == 3


def test_nothing_to_expire(connection):
    factories.pending_job(expires_at=factories.server_now() + timedelta(hours=1))
    factories.running_job(expires_at=factories.server_now() + PAST)

    report = Expirer().run_once(connection, batch_size=10)

    assert report.touched == []


def test_jobs_that_came_too_late_are_cancelled_with_the_reason(connection):
    job = factories.pending_job(expires_at=factories.server_now() + PAST)

    report = Expirer().run_once(connection, batch_size=10)

    assert report.touched == [job.id]
    expired = CompletedJob.objects.get(pk=job.id)
    assert expired.status == JobStatus.CANCELLED
    assert expired.error_message.startswith("Expired: not started by ")


def test_more_than_one_batch_expires(connection):
    factories.pending_jobs(3, expires_at=factories.server_now() + PAST)

    reports = [Expirer().run_once(connection, batch_size=2) for _ in range(2)]

    assert [len(report.touched) for report in reports] == [2, 1]
    assert [report.is_full for report in reports] == [True, False]


def test_workers_that_are_silent_for_two_leases_are_forgotten(connection):
    now = factories.server_now()
    for name, silence in [("alive", 1), ("lost", 11)]:
        JobWorker.objects.create(
            worker_id=name,
            hostname="host",
            pid=1,
            queues=["default"],
            concurrency=1,
            started_at=now,
            heartbeat_at=now - timedelta(minutes=silence),
        )
    keeper = PresenceKeeper(lease=timedelta(minutes=5))

    report = keeper.run_once(connection, batch_size=10)

    assert report.touched == ["lost"]
    assert list(JobWorker.objects.values_list("worker_id", flat=True)) == ["alive"]
