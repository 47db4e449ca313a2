"""Where the stager begins to look while something holds back vacuum."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.epochs import read_epochs, set_waiting_floor
from tests import factories

from .test_epochs import claims, forgotten, keeper

__all__ = ["forgotten"]

MINUTE = timedelta(minutes=1)

SCHEDULE = """
    INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name)
    SELECT last_value, now(), now() - interval '1 minute', 'scheduled', 'tests.noop'
    FROM jobs_epoch RETURNING id
"""


@pytest.fixture
def keep(connection, forgotten) -> EpochKeeper:
    """Return a keeper that has begun, while something holds back vacuum."""
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    return keep


def floor(connection) -> int:
    return read_epochs(connection).waiting_floor


def run(keep, connection, times: int = 2) -> None:
    for _ in range(times):
        keep.run_once(connection, batch_size=100)


def raise_it(keep, connection) -> None:
    claims(connection, 20)
    run(keep, connection)
    assert floor(connection) > 1


def test_it_rises_with_the_claims(connection, keep):
    run(keep, connection)
    assert floor(connection) == 1
    raise_it(keep, connection)
    before = floor(connection)
    run(keep, connection)
    assert floor(connection) == before

    raise_it(keep, connection)

    assert floor(connection) > before


def test_it_does_not_rise_over_a_job_that_waits(connection, keep):
    factories.scheduled_job(due_in=-MINUTE)

    raise_it(keep, connection)

    assert stage_jobs(connection, limit=10).staged == 1


def test_it_waits_for_whoever_is_writing(connect, connection, keep):
    producer = connect()
    with producer.transaction():
        producer.execute(SCHEDULE)
        claims(connection, 20)
        run(keep, connection, times=3)
        assert floor(connection) == 1
    run(keep, connection)

    assert floor(connection) > 1
    assert stage_jobs(connection, limit=10).staged == 1


def test_it_goes_back_for_a_job_that_a_long_transaction_commits(connect, connection, keep):
    producer = connect()
    with producer.transaction():
        producer.execute(SCHEDULE)
        claims(connection, 20)
        run(keep, connection, times=10)
        assert floor(connection) > 1
    assert stage_jobs(connection, limit=10).staged == 0

    run(keep, connection, times=1)

    assert stage_jobs(connection, limit=10).staged == 1


def test_it_goes_back_when_vacuum_can_do_its_work(connection, keep, forgotten):
    raise_it(keep, connection)
    forgotten.execute("COMMIT")
    factories.pending_job()

    run(keep, connection, times=1)

    assert floor(connection) == 1


def test_it_goes_back_when_the_clock_does(connection, keep):
    raise_it(keep, connection)
    set_waiting_floor(connection, floor=2**52)

    run(keep, connection, times=1)

    assert floor(connection) == 1


def test_a_process_that_has_just_begun_does_not_believe_it(connection, keep):
    set_waiting_floor(connection, floor=1_000_000)

    keeper().run_once(connection, batch_size=100)

    assert floor(connection) == 1
