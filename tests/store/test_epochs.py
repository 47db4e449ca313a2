"""Moving the claim index to a new epoch without losing a row."""

from __future__ import annotations

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from django_pgjobs.store.enqueue import enqueue_job
from django_pgjobs.store.epochs import move_epoch, raise_epoch_low, read_epochs, restamp_jobs
from tests import factories
from tests.invariants import check_invariants

from .calls import claim_jobs
from .test_enqueue import new_job


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value("SELECT setval('jobs_epoch', 1)")
    factories.query_value("SELECT setval('jobs_epoch_low', 1)")


def live():
    epochs = read_epochs(connection)
    return epochs.epoch_low, epochs.epoch


class TestReadEpochs:
    """What decides whether to move."""

    def test_claims_grow_by_one_with_each_claim(self):
        factories.pending_jobs(3)
        before = read_epochs(connection).claims

        claim_jobs(connection)

        assert read_epochs(connection).claims == before + 3

    def test_an_idle_snapshot_holds_the_horizon(self, connect):
        holder, writer = connect(), connect()
        with holder.transaction():
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")
            for _ in range(3):
                enqueue_job(writer, new_job())

            epochs = read_epochs(writer)

        assert epochs.next_xid - epochs.oldest_xid >= 3


class TestMoveEpoch:
    """The beginning of a new epoch."""

    def test_new_rows_take_the_new_epoch_and_old_ones_are_still_claimed(self):
        enqueue_job(connection, new_job())

        assert move_epoch(connection) == 2

        assert live() == (1, 2)
        enqueue_job(connection, new_job())
        assert sorted(ActiveJob.objects.values_list("epoch", flat=True)) == [1, 2]
        assert len(claim_jobs(connection).jobs) == 2

    def test_a_claimed_row_moves_to_the_new_epoch(self):
        factories.pending_job()
        move_epoch(connection)

        claim_jobs(connection)

        assert ActiveJob.objects.get().epoch == 2


class TestRestampJobs:
    """Rows that were left behind."""

    @pytest.mark.parametrize("epoch", [1, 9])
    def test_pending_and_running_rows_of_other_epochs_move_to_the_newest(self, epoch):
        jobs = [factories.pending_job(epoch=epoch), factories.running_job(epoch=epoch)]
        factories.query_value("SELECT setval('jobs_epoch', 5)")

        assert sorted(restamp_jobs(connection, limit=10)) == [job.id for job in jobs]

        assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {5}
        assert restamp_jobs(connection, limit=10) == []

    @pytest.mark.parametrize("status", [JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.BLOCKED])
    def test_a_waiting_row_gets_its_epoch_when_it_is_staged(self, status):
        factories.ActiveJobFactory(status=status, epoch=1)
        move_epoch(connection)

        assert restamp_jobs(connection, limit=10) == []

    def test_a_lease_survives(self):
        job = factories.running_job(epoch=1)
        before = ActiveJob.objects.values().get()
        move_epoch(connection)

        restamp_jobs(connection, limit=10)

        assert ActiveJob.objects.values().get() == {**before, "epoch": 2}
        assert job.fence_token == before["fence_token"]

    def test_no_more_than_the_limit_is_moved(self):
        factories.pending_jobs(3)
        factories.running_job()
        move_epoch(connection)

        assert [len(restamp_jobs(connection, limit=3)) for _ in range(3)] == [3, 1, 0]

    def test_a_row_that_somebody_has_locked_is_passed_over(self, connect):
        job = factories.pending_job()
        raw, other = connect(), connect()
        move_epoch(raw)
        with other.transaction():
            other.execute("SELECT FROM jobs_active FOR UPDATE")
            assert restamp_jobs(raw, limit=10) == []

        assert restamp_jobs(raw, limit=10) == [job.id]


class TestRaiseEpochLow:
    """The end of an old epoch."""

    def test_an_empty_epoch_ends(self):
        factories.pending_job(epoch=2)
        move_epoch(connection)

        assert raise_epoch_low(connection, epoch=2)
        assert live() == (2, 2)

    @pytest.mark.parametrize("make", [factories.pending_job, factories.running_job])
    def test_an_epoch_with_rows_goes_on(self, make):
        make(epoch=1)
        factories.pending_job(epoch=2)
        factories.running_job(epoch=2)
        move_epoch(connection)

        assert not raise_epoch_low(connection, epoch=2)
        assert live() == (1, 2)

    def test_waiting_rows_do_not_hold_it(self):
        factories.scheduled_job(epoch=1)
        move_epoch(connection)

        assert raise_epoch_low(connection, epoch=2)

    def test_a_row_that_is_just_being_moved_holds_it(self, connect):
        factories.pending_job()
        raw, other = connect(), connect()
        move_epoch(raw)
        with other.transaction():
            restamp_jobs(other, limit=10)
            assert not raise_epoch_low(raw, epoch=2)

        assert raise_epoch_low(raw, epoch=2)

    def test_a_late_commit_into_an_old_epoch_is_found_by_the_next_restamp(self, connect):
        raw, late = connect(), connect()
        with late.transaction():
            enqueue_job(late, new_job())
            move_epoch(raw)
            restamp_jobs(raw, limit=10)
            assert raise_epoch_low(raw, epoch=2)
        assert claim_jobs(raw).jobs == []

        restamp_jobs(raw, limit=10)

        assert len(claim_jobs(raw).jobs) == 1
        assert check_invariants(raw, quiet=True) == []

    def test_who_comes_late_does_not_reopen_an_epoch(self):
        """A leader that lost its office between the restamp and the raise."""
        factories.query_value("SELECT setval('jobs_epoch', 3)")
        raise_epoch_low(connection, epoch=3)

        raise_epoch_low(connection, epoch=2)

        assert live() == (3, 3)
