"""Moving the indexes of jobs_active to new epochs without losing a row."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.enqueue import enqueue_job
from django_pgjobs.store.epochs import (
    find_waiting_floor,
    list_claims,
    list_writers,
    move_epoch,
    move_running_epoch,
    raise_epoch_low,
    raise_running_epoch_low,
    read_epochs,
    restamp_pending,
    restamp_running,
    set_waiting_floor,
)
from tests import factories
from tests.fix_database import FIRST_EPOCHS
from tests.invariants import check_invariants

from .calls import claim_jobs, claim_jobs_under_caps
from .test_enqueue import new_job

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value(FIRST_EPOCHS)


def pending_epochs():
    epochs = read_epochs(connection)
    return epochs.epoch_low, epochs.epoch


def running_epochs():
    epochs = read_epochs(connection)
    return epochs.running_epoch_low, epochs.running_epoch


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

    def test_a_floor_later_than_the_clock_is_known(self):
        set_waiting_floor(connection, floor=2**52)
        assert read_epochs(connection).has_future_floor

        set_waiting_floor(connection, floor=1)
        assert not read_epochs(connection).has_future_floor


class TestMoveEpoch:
    """The beginning of a new epoch of pending rows."""

    def test_new_rows_take_the_new_epoch_and_old_ones_are_still_claimed(self):
        enqueue_job(connection, new_job())

        assert move_epoch(connection) == 2

        assert pending_epochs() == (1, 2)
        enqueue_job(connection, new_job())
        assert sorted(ActiveJob.objects.values_list("epoch", flat=True)) == [1, 2]
        assert len(claim_jobs(connection).jobs) == 2

    def test_running_rows_have_epochs_of_their_own(self):
        factories.pending_job()
        move_epoch(connection)

        claim_jobs(connection)

        assert ActiveJob.objects.get().epoch == 1
        assert running_epochs() == (1, 1)


class TestMoveRunningEpoch:
    """The beginning of a new epoch of running rows."""

    def test_what_is_claimed_takes_the_new_epoch(self):
        factories.pending_job()

        assert move_running_epoch(connection) == 2
        claim_jobs(connection)

        assert running_epochs() == (1, 2)
        assert ActiveJob.objects.get().epoch == 2


class TestRestampPending:
    """Pending rows that were left behind."""

    @pytest.mark.parametrize("epoch", [1, 9])
    def test_rows_of_other_epochs_move_to_the_newest(self, epoch):
        jobs = factories.pending_jobs(2, epoch=epoch)
        factories.query_value("SELECT setval('jobs_epoch', 5)")

        assert sorted(restamp_pending(connection, limit=10)) == [job.id for job in jobs]

        assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {5}
        assert restamp_pending(connection, limit=10) == []

    def test_rows_below_the_lowest_epoch_move_too(self):
        jobs = [
            factories.pending_job(epoch=1, tenant_id=tenant_id, queue_name=queue)
            for tenant_id in (1, 2)
            for queue in ("a", "b")
        ]
        factories.query_value("SELECT setval('jobs_epoch_low', 3), setval('jobs_epoch', 3)")

        assert sorted(restamp_pending(connection, limit=10)) == [job.id for job in jobs]

    @pytest.mark.parametrize(
        "status", [JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.BLOCKED, JobStatus.RUNNING]
    )
    def test_a_row_that_is_not_pending_has_no_such_epoch(self, status):
        factories.ActiveJobFactory(status=status, epoch=1) if (
            status != JobStatus.RUNNING
        ) else factories.running_job(epoch=1)
        move_epoch(connection)

        assert restamp_pending(connection, limit=10) == []

    def test_no_more_than_the_limit_is_moved(self):
        factories.pending_jobs(4)
        move_epoch(connection)

        assert [len(restamp_pending(connection, limit=3)) for _ in range(3)] == [3, 1, 0]

    def test_a_row_that_somebody_has_locked_is_passed_over(self, connect):
        job = factories.pending_job()
        raw, other = connect(), connect()
        move_epoch(raw)
        with other.transaction():
            other.execute("SELECT FROM jobs_active FOR UPDATE")
            assert restamp_pending(raw, limit=10) == []

        assert restamp_pending(raw, limit=10) == [job.id]


class TestRestampRunning:
    """Running rows that were left behind."""

    @pytest.mark.parametrize("epoch", [1, 9])
    def test_rows_of_other_epochs_move_to_the_newest(self, epoch):
        job = factories.running_job(epoch=epoch)
        factories.pending_job(epoch=epoch)
        factories.query_value("SELECT setval('jobs_running_epoch', 5)")

        assert restamp_running(connection, limit=10) == [job.id]

        job.refresh_from_db()
        assert job.epoch == 5
        assert restamp_running(connection, limit=10) == []

    def test_a_lease_survives(self):
        job = factories.running_job(epoch=1)
        before = ActiveJob.objects.values().get()
        move_running_epoch(connection)

        restamp_running(connection, limit=10)

        assert ActiveJob.objects.values().get() == {**before, "epoch": 2}
        assert job.fence_token == before["fence_token"]

    def test_no_more_than_the_limit_is_moved(self):
        for _ in range(3):
            factories.running_job()
        move_running_epoch(connection)

        assert [len(restamp_running(connection, limit=2)) for _ in range(3)] == [2, 1, 0]

    def test_a_row_that_somebody_has_locked_is_passed_over(self, connect):
        factories.running_job()
        raw, other = connect(), connect()
        move_running_epoch(raw)
        with other.transaction():
            other.execute("SELECT FROM jobs_active FOR UPDATE")
            assert restamp_running(raw, limit=10) == []

        assert len(restamp_running(raw, limit=10)) == 1


class TestRaiseEpochLow:
    """The end of an old epoch of pending rows."""

    def test_an_empty_epoch_ends(self):
        factories.pending_job(epoch=2)
        move_epoch(connection)

        assert raise_epoch_low(connection, epoch=2)
        assert pending_epochs() == (2, 2)

    def test_an_epoch_with_rows_goes_on(self):
        factories.pending_job(epoch=1)
        factories.pending_job(epoch=2)
        move_epoch(connection)

        assert not raise_epoch_low(connection, epoch=2)
        assert pending_epochs() == (1, 2)

    @pytest.mark.parametrize("make", [factories.scheduled_job, factories.running_job])
    def test_other_rows_do_not_hold_it(self, make):
        make(epoch=1)
        move_epoch(connection)

        assert raise_epoch_low(connection, epoch=2)

    def test_a_row_that_is_just_being_moved_holds_it(self, connect):
        factories.pending_job()
        raw, other = connect(), connect()
        move_epoch(raw)
        with other.transaction():
            restamp_pending(other, limit=10)
            assert not raise_epoch_low(raw, epoch=2)

        assert raise_epoch_low(raw, epoch=2)

    def test_a_late_commit_into_an_old_epoch_is_found_by_the_next_restamp(self, connect):
        raw, late = connect(), connect()
        with late.transaction():
            enqueue_job(late, new_job())
            move_epoch(raw)
            restamp_pending(raw, limit=10)
            assert raise_epoch_low(raw, epoch=2)
        assert claim_jobs(raw).jobs == []

        restamp_pending(raw, limit=10)

        assert len(claim_jobs(raw).jobs) == 1
        assert check_invariants(raw, quiet=True) == []

    def test_who_comes_late_does_not_reopen_an_epoch(self):
        """A leader that lost its office between the restamp and the raise."""
        factories.query_value("SELECT setval('jobs_epoch', 3)")
        raise_epoch_low(connection, epoch=3)

        raise_epoch_low(connection, epoch=2)

        assert pending_epochs() == (3, 3)


class TestRaiseRunningEpochLow:
    """The end of an old epoch of running rows."""

    def test_an_empty_epoch_ends(self):
        factories.running_job(epoch=2)
        factories.pending_job(epoch=1)
        move_running_epoch(connection)

        assert raise_running_epoch_low(connection, epoch=2)
        assert running_epochs() == (2, 2)

    def test_an_epoch_with_rows_goes_on(self):
        factories.running_job(epoch=1)
        move_running_epoch(connection)

        assert not raise_running_epoch_low(connection, epoch=2)
        assert running_epochs() == (1, 2)

    def test_who_comes_late_does_not_reopen_an_epoch(self):
        factories.query_value("SELECT setval('jobs_running_epoch', 3)")
        raise_running_epoch_low(connection, epoch=3)

        raise_running_epoch_low(connection, epoch=2)

        assert running_epochs() == (3, 3)


class TestListWriters:
    """Who may still write into the epoch that was the newest."""

    def test_whoever_has_enqueued_is_listed_until_the_transaction_ends(self, connect):
        raw, producer = connect(), connect()
        with producer.transaction():
            enqueue_job(producer, new_job())
            assert len(list_writers(raw)) == 1

        assert list_writers(raw) == frozenset()

    def test_whoever_only_reads_is_not(self, connect):
        raw, reader = connect(), connect()
        with reader.transaction():
            reader.execute("SELECT FROM jobs_active")

            assert list_writers(raw) == frozenset()


class TestListClaims:
    """Who may still claim into the epoch that was the newest."""

    @pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_under_caps])
    def test_a_claim_is_listed_until_its_transaction_ends(self, connect, claim):
        raw, worker = connect(), connect()
        with worker.transaction():
            claim_jobs(worker)
            assert len(list_claims(raw)) == 1

        assert list_claims(raw) == frozenset()

    def test_a_forgotten_transaction_that_has_enqueued_is_not(self, connect):
        raw, producer = connect(), connect()
        with producer.transaction():
            enqueue_job(producer, new_job())

            assert list_claims(raw) == frozenset()


class TestFindWaitingFloor:
    """Before which time no job waits."""

    def test_it_is_the_time_of_the_first_waiting_job(self):
        for minutes in (3, 1, 2):
            factories.scheduled_job(due_in=-minutes * MINUTE)
        first = ActiveJob.objects.order_by("scheduled_at").first()

        floor = find_waiting_floor(connection)

        assert (
            floor == int(first.scheduled_at.timestamp()) * 10**6 + first.scheduled_at.microsecond
        )

    @pytest.mark.parametrize("is_waiting", [False, True])
    def test_it_stays_behind_the_clock(self, is_waiting):
        if is_waiting:
            factories.scheduled_job(due_in=MINUTE)

        floor = find_waiting_floor(connection)

        now = factories.server_now().timestamp() * 10**6
        assert now - 60 * 10**6 < floor < now - 4 * 10**6


class TestSetWaitingFloor:
    """Where the stager begins to look."""

    def test_what_is_below_is_not_staged_and_what_is_on_it_is(self):
        below, on = [factories.scheduled_job(due_in=-n * MINUTE) for n in (9, 5)]
        floor = int(on.scheduled_at.timestamp()) * 10**6 + on.scheduled_at.microsecond

        assert set_waiting_floor(connection, floor=floor) == floor

        assert stage_jobs(connection, limit=10).staged == 1
        assert set(ActiveJob.objects.values_list("id", "status")) == {
            (below.id, "scheduled"),
            (on.id, "pending"),
        }

    def test_the_beginning_is_one(self):
        factories.scheduled_job(due_in=-9 * MINUTE)

        assert set_waiting_floor(connection, floor=1) == 1

        assert stage_jobs(connection, limit=10).staged == 1
