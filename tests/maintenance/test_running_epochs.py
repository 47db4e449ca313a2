"""Epochs of running rows: nobody counts past a claim that is under way."""

from __future__ import annotations

from tests import factories
from tests.store import calls

from .test_epochs import ENQUEUE, claims, forgotten, keeper, running

__all__ = ["forgotten"]


def test_they_move_on_however_long_the_backlog_is(connection, forgotten):
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    factories.pending_jobs(30)
    job = factories.running_job()
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    job.refresh_from_db()
    assert running(connection) == (2, 2)
    assert job.epoch == 2


def test_the_lowest_waits_for_a_claim_that_has_read_it(connect, connection, forgotten):
    keep, worker = keeper(), connect()
    keep.run_once(connection, batch_size=100)
    job = factories.pending_job()
    with worker.transaction():
        calls.claim_jobs(worker)
        claims(connection, 20)
        for _ in range(2):
            keep.run_once(connection, batch_size=100)
        assert running(connection) == (1, 2)

    assert keep.run_once(connection, batch_size=100).touched == [job.id]
    keep.run_once(connection, batch_size=100)

    assert running(connection) == (2, 2)


def test_a_process_that_has_just_begun_waits_for_every_claim(connect, connection, forgotten):
    worker = connect()
    factories.pending_job()
    with worker.transaction():
        calls.claim_jobs(worker)
        connection.execute("SELECT setval('jobs_running_epoch', 2)")
        keep = keeper()
        for _ in range(2):
            keep.run_once(connection, batch_size=100)

        assert running(connection) == (1, 2)


def test_it_does_not_wait_for_a_forgotten_transaction_that_has_enqueued(connect, connection):
    keep, producer = keeper(), connect()
    producer.execute("BEGIN")
    producer.execute(ENQUEUE)
    keep.run_once(connection, batch_size=100)
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert running(connection) == (2, 2)


def test_rows_of_an_epoch_that_does_not_exist_are_found(connection):
    """As after a restore that brought back the tables and not the sequences."""
    stray = factories.running_job(epoch=77)

    keeper().run_once(connection, batch_size=100)

    stray.refresh_from_db()
    assert stray.epoch == 1
