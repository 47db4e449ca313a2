"""New epochs while something holds back vacuum."""

from __future__ import annotations

import pytest

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.models import ActiveJob
from django_pgjobs.store.enqueue import reserve_ids
from django_pgjobs.store.epochs import list_writers, read_epochs
from tests import factories


@pytest.fixture
def forgotten(connect):
    """Return a connection that has been left in a transaction with a snapshot."""
    other = connect()
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT 1")
    return other


def claims(connection, count: int) -> None:
    """Count claims, each in a transaction of its own, as workers do."""
    for _ in range(count):
        connection.execute("SELECT nextval('jobs_fence')")


def keeper(claims_per_epoch: int = 10) -> EpochKeeper:
    return EpochKeeper(claims_per_epoch=claims_per_epoch)


def live(connection) -> tuple[int, int]:
    epochs = read_epochs(connection)
    return epochs.epoch_low, epochs.epoch


def running(connection) -> tuple[int, int]:
    epochs = read_epochs(connection)
    return epochs.running_epoch_low, epochs.running_epoch


def test_a_free_horizon_needs_no_new_epoch(connection):
    keep = keeper()
    for _ in range(3):
        keep.run_once(connection, batch_size=100)
        claims(connection, 50)
        # Anything that has committed lets the horizon pass.
        factories.pending_job()

    assert live(connection) == (1, 1)


def test_a_pinned_horizon_and_enough_claims_begin_a_new_epoch(connection, forgotten):
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert live(connection) == (2, 2)


def test_few_claims_are_not_worth_a_new_epoch(connection, forgotten):
    keep = keeper(claims_per_epoch=1000)
    keep.run_once(connection, batch_size=100)
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert live(connection) == (1, 1)


def test_what_is_left_behind_is_moved_in_batches_before_the_old_epoch_is_left(
    connection, forgotten
):
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    factories.pending_jobs(4)
    factories.running_job()
    claims(connection, 20)

    first = keep.run_once(connection, batch_size=3)
    assert (len(first.touched), first.is_full, live(connection)) == (4, True, (1, 2))
    keep.run_once(connection, batch_size=3)

    assert live(connection) == running(connection) == (2, 2)
    assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {2}


ENQUEUE = """
    INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name)
    SELECT last_value, now(), now(), 'pending', 'tests.noop' FROM jobs_epoch RETURNING id
"""


def test_a_commit_into_an_epoch_that_has_gone_is_found(connect, connection, forgotten):
    keep, producer = keeper(), connect()
    keep.run_once(connection, batch_size=100)
    producer.execute("BEGIN")
    (late,) = producer.execute(ENQUEUE).fetchone()
    claims(connection, 20)
    keep.run_once(connection, batch_size=100)
    assert live(connection) == (2, 2)
    assert keep.run_once(connection, batch_size=100).touched == []
    producer.execute("COMMIT")

    report = keep.run_once(connection, batch_size=100)

    assert report.touched == [late]
    assert ActiveJob.objects.get().epoch == 2


def test_a_late_commit_is_found_by_a_process_that_knows_nothing_of_the_move(
    connect, connection, forgotten
):
    keep, producer = keeper(), connect()
    keep.run_once(connection, batch_size=100)
    producer.execute("BEGIN")
    (late,) = producer.execute(ENQUEUE).fetchone()
    claims(connection, 20)
    keep.run_once(connection, batch_size=100)
    other = keeper()
    other.run_once(connection, batch_size=100)
    producer.execute("COMMIT")

    assert other.run_once(connection, batch_size=100).touched == [late]


def test_a_late_commit_is_found_by_a_process_that_has_led_before_the_move(
    connect, connection, forgotten
):
    """Leadership comes back to it when the process that moved has died."""
    keep, before, producer = keeper(), keeper(), connect()
    before.run_once(connection, batch_size=100)
    keep.run_once(connection, batch_size=100)
    producer.execute("BEGIN")
    (late,) = producer.execute(ENQUEUE).fetchone()
    claims(connection, 20)
    keep.run_once(connection, batch_size=100)
    assert live(connection) == (2, 2)
    before.run_once(connection, batch_size=100)
    producer.execute("COMMIT")

    assert before.run_once(connection, batch_size=100).touched == [late]


def test_a_copy_is_known_as_a_writer_before_it_reads_the_epoch(connect, connection):
    producer = connect()
    with producer.transaction():
        reserve_ids(producer, count=1)
        writers = list_writers(connection)

    assert len(writers) == 1
    assert list_writers(connection) == frozenset()


def test_old_epochs_are_not_looked_through_again_and_again(connection, forgotten):
    """A row that could not have come there stays where it is: nobody looks."""
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    claims(connection, 20)
    keep.run_once(connection, batch_size=100)
    stray = factories.pending_job(epoch=1)

    assert keep.run_once(connection, batch_size=100).touched == []
    assert keeper().run_once(connection, batch_size=100).touched == [stray.id]


def test_rows_of_an_epoch_that_does_not_exist_are_found(connection):
    """As after a restore that brought back the tables and not the sequences."""
    stray = factories.pending_job(epoch=77)

    keeper().run_once(connection, batch_size=100)

    stray.refresh_from_db()
    assert stray.epoch == 1


def test_a_transaction_that_has_written_pins_the_horizon_too(connect, connection):
    other = connect()
    other.execute("BEGIN")
    other.execute("SELECT pg_current_xact_id()")
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert live(connection) == (2, 2)


def test_it_does_also_while_others_write(connect, connection):
    other, writer = connect(), connect()
    for began in (writer, other):
        began.execute("BEGIN")
        began.execute("SELECT pg_current_xact_id()")
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    writer.execute("COMMIT")
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert live(connection) == (2, 2)
