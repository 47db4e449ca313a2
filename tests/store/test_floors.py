"""Kept epochs: what is left in them is found by its floors."""

from __future__ import annotations

import pytest
from django.db import connection

from django_pgjobs.models import ActiveJob
from django_pgjobs.store.claim import list_queues
from django_pgjobs.store.enqueue import enqueue_job
from django_pgjobs.store.epochs import (
    forget_floors,
    move_epoch,
    raise_epoch_low,
    read_epochs,
    restamp_pending,
    use_floors,
    write_floors,
)
from django_pgjobs.store.observe import count_pending, read_queues
from tests import factories
from tests.fix_database import FIRST_EPOCHS
from tests.invariants import check_invariants

from .calls import claim_jobs, claim_jobs_of_tenant, claim_jobs_under_caps, lock_capped_tenants
from .test_enqueue import new_job


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value(FIRST_EPOCHS)


def keep(to=connection):
    """Keep what is pending now; return the newest epoch."""
    epoch = move_epoch(to)
    use_floors(to, generation=write_floors(to, epoch=epoch).generation)
    assert raise_epoch_low(to, epoch=epoch)
    return epoch


def write_again(to=connection):
    """Write the floors anew, as maintenance does."""
    written = write_floors(to, epoch=read_epochs(to).epoch_low)
    use_floors(to, generation=written.generation)
    forget_floors(to)
    return written.floors


def floors():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT epoch, queue_name, tenant_id, job_id FROM claim_floors "
            "WHERE generation = (SELECT last_value FROM jobs_floors) ORDER BY 1, 2, 3"
        )
        return cursor.fetchall()


def claimed(claim):
    return [job.id for job in claim.jobs]


def of_tenants(claim):
    return sorted(job.tenant_id for job in claim.jobs)


class TestWriteFloors:
    """Where each tenant's rows begin."""

    def test_each_queue_and_tenant_has_a_floor_at_its_first_job(self):
        later = factories.pending_job(tenant_id=1)
        first = factories.pending_job(tenant_id=1, priority=5)
        other = factories.pending_job(tenant_id=2)
        mail = factories.pending_job(tenant_id=2, queue_name="mail")

        keep()

        assert floors() == [
            (1, "default", 1, first.id),
            (1, "default", 2, other.id),
            (1, "mail", 2, mail.id),
        ]
        assert later.id not in {job_id for *_, job_id in floors()}

    def test_jobs_of_one_instant_begin_at_the_lowest_id(self):
        now = factories.server_now()
        first, *_ = [factories.pending_job(scheduled_at=now) for _ in range(3)]

        keep()

        assert [job_id for *_, job_id in floors()] == [first.id]

    def test_floors_rise_with_the_claims_and_go_with_the_last_job(self):
        jobs = factories.pending_jobs(3)
        keep()

        claim_jobs_of_tenant(connection, limit=2)
        assert write_again() == 1
        assert [job_id for *_, job_id in floors()] == [jobs[2].id]

        claim_jobs_of_tenant(connection)
        assert write_again() == 0
        assert floors() == []

    def test_a_claim_that_may_be_rolled_back_does_not_raise_a_floor(self, connect):
        job = factories.pending_job()
        raw, other = connect(), connect()
        keep(raw)
        with other.transaction(force_rollback=True):
            assert claimed(claim_jobs_of_tenant(other)) == [job.id]
            write_again(raw)

        assert claimed(claim_jobs_of_tenant(raw)) == [job.id]

    def test_several_epochs_are_kept(self):
        first = factories.pending_job()
        keep()
        second = factories.pending_job()
        keep()

        assert floors() == [(1, "default", 0, first.id), (2, "default", 0, second.id)]
        assert read_epochs(connection).kept == 2

    def test_who_begins_again_after_a_crash_ends_well(self):
        """Written, and nothing else: the generation is not in use."""
        job = factories.pending_job()
        write_floors(connection, epoch=move_epoch(connection))
        claim_jobs_of_tenant(connection)
        other = factories.pending_job()

        keep()

        assert claimed(claim_jobs_of_tenant(connection)) == [other.id] != [job.id]


class TestUseFloors:
    """Which generation claims read."""

    def test_it_never_goes_back(self):
        assert use_floors(connection, generation=7) == 7
        assert use_floors(connection, generation=6) == 7

    def test_before_it_is_used_claims_walk_the_epoch_as_before(self):
        job = factories.pending_job()

        write_floors(connection, epoch=move_epoch(connection))

        assert claimed(claim_jobs(connection)) == [job.id]


class TestForgetFloors:
    """What nobody reads any more."""

    def test_older_generations_and_empty_epochs_go(self):
        factories.pending_job()
        keep()
        claim_jobs(connection)
        written = write_floors(connection, epoch=read_epochs(connection).epoch_low)
        use_floors(connection, generation=written.generation)

        assert forget_floors(connection) == [1]

        assert factories.query_value("SELECT count(*) FROM claim_floors") == 0
        assert read_epochs(connection).kept == 0

    def test_what_is_used_stays(self):
        factories.pending_job()
        keep()

        assert forget_floors(connection) == []

        assert len(floors()) == 1
        assert read_epochs(connection).kept == 1


class TestRaiseEpochLow:
    """Only what is kept may be left behind."""

    def test_an_epoch_that_is_not_kept_holds_it(self):
        factories.pending_job()
        epoch = move_epoch(connection)

        assert not raise_epoch_low(connection, epoch=epoch)

    def test_an_empty_epoch_between_does_not(self):
        factories.pending_job()
        keep()
        move_epoch(connection)

        assert raise_epoch_low(connection, epoch=3)


class TestRestampPending:
    """What the floors do not cover."""

    def test_what_lies_behind_its_floor_stays(self):
        factories.pending_jobs(3)
        keep()

        assert restamp_pending(connection, limit=10) == []

    def test_a_late_commit_below_the_floor_is_moved(self, connect):
        factories.pending_job()
        raw, late = connect(), connect()
        with late.transaction():
            enqueue_job(late, new_job(priority=5))
            keep(raw)
        assert len(claim_jobs(raw, limit=9).jobs) == 1

        (moved,) = restamp_pending(raw, limit=10)

        assert claimed(claim_jobs(raw)) == [moved]
        assert check_invariants(raw, quiet=True) == []

    @pytest.mark.parametrize("values", [{"tenant_id": 8}, {"queue": "mail"}])
    def test_a_late_commit_of_a_tenant_without_a_floor_is_moved(self, connect, values):
        factories.pending_job()
        raw, late = connect(), connect()
        with late.transaction():
            enqueue_job(late, new_job(**values))
            keep(raw)

        (moved,) = restamp_pending(raw, limit=10)

        assert ActiveJob.objects.get(id=moved).epoch == 2

    def test_a_late_commit_behind_the_floor_is_found_by_claims(self, connect):
        factories.pending_job()
        raw, late = connect(), connect()
        with late.transaction():
            enqueue_job(late, new_job())
            keep(raw)

        assert restamp_pending(raw, limit=10) == []
        assert len(claim_jobs(raw).jobs) == 2

    def test_floors_that_are_lost_are_made_up_for(self):
        jobs = factories.pending_jobs(3)
        keep()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM claim_floors")
        assert claimed(claim_jobs(connection)) == []

        assert sorted(restamp_pending(connection, limit=10)) == [job.id for job in jobs]


class TestClaimJobs:
    """Claims of kept epochs and of the newest, as if they were one."""

    @pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_of_tenant, claim_jobs_under_caps])
    def test_what_is_kept_is_claimed(self, claim, connect):
        jobs = factories.pending_jobs(3)
        raw = connect()
        keep(raw)

        assert claimed(claim(raw)) == [job.id for job in jobs]

    @pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_of_tenant])
    def test_the_urgent_of_the_newest_epoch_comes_first_and_then_what_is_kept(self, claim):
        old = factories.pending_jobs(3)
        keep()
        new = factories.pending_job()
        urgent = factories.pending_job(priority=5)

        assert claimed(claim(connection, limit=2)) == [urgent.id, old[0].id]
        assert claimed(claim(connection)) == [old[1].id, old[2].id, new.id]

    @pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_of_tenant])
    def test_the_urgent_of_a_later_kept_epoch_comes_first(self, claim):
        old = factories.pending_jobs(2)
        keep()
        urgent = factories.pending_job(priority=5)
        keep()

        assert claimed(claim(connection, limit=2)) == [urgent.id, old[0].id]

    @pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_of_tenant])
    def test_locked_rows_of_a_kept_epoch_do_not_hide_the_newest(self, claim, connect):
        factories.pending_jobs(2)
        raw, other = connect(), connect()
        keep(raw)
        new = factories.pending_job()
        with other.transaction():
            other.execute("SELECT FROM jobs_active WHERE epoch = 1 FOR UPDATE")

            assert claimed(claim(raw)) == [new.id]

    def test_tenants_share_whatever_epochs_they_are_in(self):
        factories.pending_jobs(9, tenant_id=1)
        keep()
        factories.pending_jobs(9, tenant_id=1)
        factories.pending_jobs(9, tenant_id=2)

        claim = claim_jobs(connection, limit=8)

        assert of_tenants(claim) == [1] * 4 + [2] * 4
        assert claim.tenants == 2

    def test_a_tenant_whose_kept_jobs_have_gone_is_not_visited(self):
        factories.pending_job(tenant_id=1)
        factories.pending_jobs(2, tenant_id=2)
        keep()
        claim_jobs_of_tenant(connection, tenant_id=1)

        claim = claim_jobs(connection, limit=1)

        assert (of_tenants(claim), claim.tenants, claim.sole_tenant) == ([2], 1, 2)

    @pytest.mark.parametrize("after_tenant", [-1, 2, 3, 9])
    def test_the_walk_goes_round(self, after_tenant):
        for tenant_id in (1, 2, 3):
            factories.pending_job(tenant_id=tenant_id)
        keep()

        claim = claim_jobs(connection, after_tenant=after_tenant)

        assert of_tenants(claim) == [1, 2, 3]

    @pytest.mark.parametrize("is_kept", [False, True])
    def test_a_tenant_is_alone_only_if_no_other_has_work_anywhere(self, is_kept):
        factories.pending_jobs(3, tenant_id=5)
        factories.pending_job(tenant_id=1)
        if is_kept:
            keep()
        factories.pending_job(tenant_id=5)

        assert claim_jobs_of_tenant(connection, tenant_id=5, limit=1).is_truncated
        claim_jobs_of_tenant(connection, tenant_id=1)
        assert claim_jobs_of_tenant(connection, tenant_id=5, limit=1).sole_tenant == 5

    def test_a_paused_queue_is_not_served(self):
        factories.pending_job()
        keep()
        factories.PausedQueueFactory(queue_name="default")

        assert claimed(claim_jobs(connection)) == claimed(claim_jobs_of_tenant(connection)) == []

    def test_a_cap_holds(self, connect):
        factories.TenantConfigFactory(tenant_id=0, max_concurrent_jobs=2)
        factories.pending_jobs(5)
        raw = connect()
        keep(raw)

        with raw.transaction():
            assert lock_capped_tenants(raw) == [0]
        claim = claim_jobs_under_caps(raw)

        assert len(claim.jobs) == 2
        assert claim_jobs_under_caps(raw).jobs == []

    def test_an_epoch_counts_as_kept_only_below_the_lowest(self):
        """Floors in use and the lowest epoch not yet raised: nothing is seen twice."""
        jobs = factories.pending_jobs(4)
        epoch = move_epoch(connection)
        use_floors(connection, generation=write_floors(connection, epoch=epoch).generation)

        assert claimed(claim_jobs(connection, limit=4)) == [job.id for job in jobs]


class TestObservation:
    """What is kept is counted and listed."""

    def test_queues_with_kept_jobs_are_listed(self):
        factories.pending_job(queue_name="mail")
        keep()
        factories.pending_job(queue_name="bulk")

        assert sorted(list_queues(connection, limit=10)) == ["bulk", "mail"]

    def test_kept_jobs_are_pending(self):
        first = factories.pending_jobs(3, queue_name="mail")[0]
        keep()
        claim_jobs(connection, queue="mail", limit=1)
        factories.pending_job(queue_name="mail")

        (queue,) = read_queues(connection, limit=100)

        assert (queue.queue_name, queue.pending, queue.running) == ("mail", 3, 1)
        assert queue.oldest_pending_age < factories.server_now() - first.scheduled_at

    def test_the_keeper_counts_what_claims_walk(self):
        factories.pending_jobs(3)
        keep()
        factories.pending_job()

        assert count_pending(connection, limit=100) == 1
