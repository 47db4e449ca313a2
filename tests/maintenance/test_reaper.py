"""The reaper returns the jobs of dead workers, and only those."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgjobs import signals
from django_pgjobs.maintenance.reaper import Reaper, _has_gap
from django_pgjobs.states import JobStatus
from tests import factories

LEASE = timedelta(minutes=5)
EXPIRED = timedelta(seconds=1)


@pytest.fixture
def reaper(connection):
    """Return a reaper that has run before, so that it trusts what it sees."""
    reaper = make_reaper()
    reaper.run_once(connection, batch_size=10)
    return reaper


def make_reaper(lease: timedelta = LEASE) -> Reaper:
    return Reaper(
        lease=lease,
        interval=timedelta(hours=1),
        backoff_base=timedelta(seconds=1),
        backoff_cap=timedelta(minutes=1),
    )


def test_nothing_to_do(connection, reaper):
    report = reaper.run_once(connection, batch_size=10)

    assert (report.touched, report.is_full, report.notes) == ([], False, None)


def test_a_job_whose_lease_has_expired_is_returned(connection, reaper):
    job = factories.running_job(lease_expired_by=EXPIRED)

    report = reaper.run_once(connection, batch_size=10)

    assert report.touched == [job.id]
    job.refresh_from_db()
    assert (job.status, job.fence_token, job.attempt) == (JobStatus.FAILED, None, 1)


def test_reporters_of_errors_hear_of_lost_attempts(connection, reaper):
    job = factories.running_job(attempt=3, max_attempts=3, lease_expired_by=EXPIRED)
    heard = []

    def receiver(attempt, **kwargs):
        heard.append((attempt.id, attempt.job_name, attempt.attempt, attempt.status))
        raise RuntimeError("reporter is down")

    signals.attempt_lost.connect(receiver)
    try:
        reaper.run_once(connection, batch_size=10)
    finally:
        signals.attempt_lost.disconnect(receiver)

    assert heard == [(job.id, "tests.noop", 3, "dead")]


def test_a_live_lease_is_left_alone(connection, reaper):
    job = factories.running_job()

    report = reaper.run_once(connection, batch_size=10)

    assert report.touched == []
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_more_than_one_batch(connection, reaper):
    for _ in range(3):
        factories.running_job(lease_expired_by=EXPIRED)

    first = reaper.run_once(connection, batch_size=2)
    second = reaper.run_once(connection, batch_size=2)

    assert (len(first.touched), first.is_full) == (2, True)
    assert (len(second.touched), second.is_full) == (1, False)


def test_after_a_start_of_the_server_every_lease_gets_a_grace(connection):
    reaper = make_reaper(lease=timedelta(days=3650))
    job = factories.running_job(lease_expired_by=EXPIRED)

    report = reaper.run_once(connection, batch_size=10)

    assert (report.touched, report.notes) == ((), {"grace": 1})
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert job.lease_expires > factories.server_now() + timedelta(days=3649)


def test_after_an_error_of_its_own_every_lease_gets_a_grace(connect, connection, reaper):
    job = factories.running_job(lease_expired_by=EXPIRED)
    broken = connect()
    broken.close()
    with pytest.raises(Exception, match="closed"):
        reaper.run_once(broken, batch_size=10)
    reaper.lease = timedelta(days=3650)

    report = reaper.run_once(connection, batch_size=10)

    assert report.notes == {"grace": 1}
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("by_server", "by_process", "has_gap"),
    [
        (10.0, 10.0, False),
        (10.2, 10.0, False),
        (15.0, 15.0, False),
        (200.0, 200.0, True),  # the reaper was away
        (600.0, 10.0, True),  # the server's clock was set forwards
        (-600.0, 10.0, True),  # and backwards
        (10.0, 200.0, True),  # the server was suspended
    ],
)
def test_a_gap_is_noticed(by_server, by_process, has_gap):
    last = (NOON, 1000.0)
    this = (NOON + timedelta(seconds=by_server), 1000.0 + by_process)

    assert _has_gap(last, this, LEASE, timedelta(seconds=10)) is has_gap
