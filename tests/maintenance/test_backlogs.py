"""A backlog that is too long to be moved while something holds back vacuum."""

from __future__ import annotations

import pytest

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.maintenance.pending_epochs import MOST_KEPT
from django_pgjobs.models import ActiveJob
from django_pgjobs.store.epochs import move_epoch, read_epochs, use_floors, write_floors
from tests import factories
from tests.fix_database import empty_rows
from tests.store import calls

from .test_epochs import ENQUEUE, claims, forgotten, keeper, live

__all__ = ["forgotten"]

#: More than the claims that the tests' keepers put up with.
LONG = 30


@pytest.fixture
def keep(connection, forgotten) -> EpochKeeper:
    """Return a keeper that has begun, while something holds back vacuum."""
    keep = keeper()
    keep.run_once(connection, batch_size=100)
    return keep


def kept(connection) -> int:
    return read_epochs(connection).kept


def generation(connection) -> int:
    return read_epochs(connection).floors


def claim(connection, limit: int) -> list[int]:
    return [job.id for job in calls.claim_jobs(connection, limit=limit).jobs]


def keep_backlog(keep, connection) -> None:
    """Make a long backlog, and have it kept."""
    factories.pending_jobs(LONG)
    claims(connection, 20)
    keep.run_once(connection, batch_size=100)
    assert live(connection) == (2, 2)


def test_it_stays_where_it_is_and_is_claimed_from_there(connection, keep):
    keep_backlog(keep, connection)

    assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {1}
    assert kept(connection) == 1
    assert len(claim(connection, LONG)) == LONG


def test_a_short_one_is_moved(connection, keep):
    factories.pending_jobs(15)
    claims(connection, 20)

    keep.run_once(connection, batch_size=100)

    assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {2}
    assert kept(connection) == 0


def test_one_more_is_kept_after_four_times_as_many_claims(connection, keep):
    keep_backlog(keep, connection)
    factories.pending_jobs(2 * LONG)
    claims(connection, LONG)

    keep.run_once(connection, batch_size=100)
    assert (live(connection), kept(connection)) == ((2, 2), 1)
    claims(connection, LONG)
    keep.run_once(connection, batch_size=100)

    assert (live(connection), kept(connection)) == ((3, 3), 2)


def test_there_are_never_more_than_a_few(connection, keep):
    for _ in range(MOST_KEPT):
        factories.pending_job()
        written = write_floors(connection, epoch=move_epoch(connection))
        use_floors(connection, generation=written.generation)
        connection.execute("SELECT setval('jobs_epoch_low', last_value) FROM jobs_epoch")
    low = live(connection)
    keep.run_once(connection, batch_size=100)
    factories.pending_jobs(LONG)

    claims(connection, LONG)
    keep.run_once(connection, batch_size=100)

    assert (live(connection), kept(connection)) == (low, MOST_KEPT)


def test_floors_are_written_again_when_there_have_been_claims(connection, keep):
    keep_backlog(keep, connection)
    before = generation(connection)
    keep.run_once(connection, batch_size=100)
    assert generation(connection) == before

    claim(connection, 12)
    keep.run_once(connection, batch_size=100)

    assert generation(connection) == before + 1
    assert factories.query_value("SELECT count(DISTINCT generation) FROM claim_floors") == 1


def test_once_it_has_been_claimed_nothing_of_it_is_kept(connection, keep):
    keep_backlog(keep, connection)
    claim(connection, LONG - 1)
    keep.run_once(connection, batch_size=100)
    claim(connection, 1)
    # One run sees the claim, the next one that there are no more.
    for _ in range(2):
        keep.run_once(connection, batch_size=100)

    assert kept(connection) == 0
    assert factories.query_value("SELECT count(*) FROM claim_floors") == 0


def test_a_commit_before_its_floors_is_found(connect, connection, keep):
    producer = connect()
    producer.execute("BEGIN")
    (late,) = producer.execute(ENQUEUE).fetchone()
    keep_backlog(keep, connection)
    claim(connection, LONG)
    keep.run_once(connection, batch_size=100)
    producer.execute("COMMIT")
    assert claim(connection, 1) == []

    assert keep.run_once(connection, batch_size=100).touched == [late]

    assert claim(connection, 1) == [late]


def test_another_process_goes_on_with_an_epoch_that_was_begun(connection, keep):
    factories.pending_jobs(LONG)
    move_epoch(connection)
    other = keeper()

    other.run_once(connection, batch_size=100)

    assert (live(connection), kept(connection)) == ((2, 2), 1)
    assert len(claim(connection, LONG)) == LONG


def test_another_process_goes_on_with_floors_that_were_not_used(connection, keep):
    factories.pending_jobs(LONG)
    write_floors(connection, epoch=move_epoch(connection))
    other = keeper()

    other.run_once(connection, batch_size=100)

    assert (live(connection), kept(connection)) == ((2, 2), 1)
    assert len(claim(connection, LONG)) == LONG


def test_whoever_finds_floors_of_somebody_else_looks_through_all(connection, keep):
    """A leader that was paused, and has written floors that know less."""
    keep_backlog(keep, connection)
    use_floors(connection, generation=generation(connection) + 5)
    assert claim(connection, 1) == []

    found = keep.run_once(connection, batch_size=100).touched

    assert len(found) == LONG
    stray = factories.pending_job(epoch=1)
    assert stray.id not in keep.run_once(connection, batch_size=100).touched


def test_nothing_is_left_for_the_next_test(connection, keep):
    keep_backlog(keep, connection)

    empty_rows(connection)

    assert (live(connection), kept(connection), generation(connection)) == ((1, 1), 0, 1)
