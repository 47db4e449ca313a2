"""Claiming: what is taken, how fairly, and what is promised of it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection as django_connection
from django.db import transaction
from psycopg import errors
from psycopg.pq import TransactionStatus

from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from django_pgjobs.store.claim import (
    find_unanswered,
    list_queues,
    stage_jobs,
    tenants_walked,
)
from tests import factories
from tests.factories import WORKER
from tests.fix_database import FIRST_EPOCHS

from .calls import (
    LEASE,
    claim_jobs,
    claim_jobs_of_tenant,
    claim_jobs_under_caps,
    lock_capped_tenants,
)

MINUTE = timedelta(minutes=1)

STATEMENTS = [claim_jobs, claim_jobs_of_tenant]


def ids(claim):
    return [job.id for job in claim.jobs]


def tenants(claim):
    return Counter(job.tenant_id for job in claim.jobs)


def set_epochs(low, newest, of="jobs"):
    factories.query_value(f"SELECT setval('{of}_epoch_low', {low})")
    factories.query_value(f"SELECT setval('{of}_epoch', {newest})")


@pytest.fixture(autouse=True)
def first_epoch(django_db_blocker, request):
    """Sequences are not rolled back."""
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value(FIRST_EPOCHS)


@pytest.mark.parametrize("claim", STATEMENTS)
class TestEveryClaim:
    """What both statements promise."""

    def test_a_claimed_job_runs_under_a_lease(self, claim):
        job = factories.pending_job(payload={"order": 7})
        now = factories.server_now()

        (claimed,) = claim(django_connection).jobs

        job.refresh_from_db()
        assert (job.status, job.locked_by) == (JobStatus.RUNNING, WORKER)
        assert (job.attempt, job.claims) == (1, 1)
        assert now <= job.locked_at == job.started_at
        assert timedelta(0) <= job.lease_expires - job.locked_at - LEASE < MINUTE
        assert (claimed.id, claimed.fence_token) == (job.id, job.fence_token)
        assert json.loads(claimed.payload) == {"order": 7}
        assert claimed.meta is None

    def test_the_first_start_is_kept_at_a_second_attempt(self, claim):
        started_at = factories.server_now() - MINUTE
        job = factories.pending_job(attempt=1, claims=4, started_at=started_at)

        claim(django_connection)

        job.refresh_from_db()
        assert job.started_at == started_at
        assert (job.attempt, job.claims) == (2, 5)

    def test_a_later_token_is_greater_and_cannot_be_foretold(self, claim):
        factories.pending_jobs(20)

        tokens = [job.fence_token for job in claim(django_connection, limit=20).jobs]

        assert len({token >> 16 for token in tokens}) == 20
        assert len({token & 0xFFFF for token in tokens}) > 1
        factories.pending_job()
        assert claim(django_connection).jobs[0].fence_token > max(tokens)

    @pytest.mark.parametrize(
        "status", [JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.RETRYABLE, JobStatus.BLOCKED]
    )
    def test_a_waiting_job_is_not_claimed(self, claim, status):
        factories.waiting_job(status, due_in=-MINUTE)

        assert claim(django_connection).jobs == []

    def test_a_running_job_is_not_claimed(self, claim):
        factories.running_job(lease_expired_by=MINUTE)

        assert claim(django_connection).jobs == []

    def test_only_the_given_queue_is_served(self, claim):
        factories.pending_job(queue_name="other")
        job = factories.pending_job()

        assert ids(claim(django_connection)) == [job.id]

    def test_no_more_than_the_limit_is_taken(self, claim):
        factories.pending_jobs(5)

        assert len(claim(django_connection, limit=3).jobs) == 3
        assert ActiveJob.objects.running().count() == 3

    def test_a_paused_queue_gives_nothing(self, claim):
        factories.PausedQueueFactory()
        factories.pending_job()

        result = claim(django_connection)

        assert (result.jobs, result.sole_tenant) == ([], None)

    def test_an_expired_job_is_not_started(self, claim):
        now = factories.server_now()
        factories.pending_job(expires_at=now - MINUTE)
        job = factories.pending_job(expires_at=now + MINUTE)

        assert ids(claim(django_connection)) == [job.id]

    def test_time_can_be_given(self, claim):
        now = factories.server_now() + timedelta(days=1)
        factories.pending_job(expires_at=now)
        job = factories.pending_job()

        claim(django_connection, now=now)

        job.refresh_from_db()
        assert ActiveJob.objects.running().count() == 1
        assert (job.locked_at, job.lease_expires) == (now, now + LEASE)

    def test_urgent_jobs_come_first_and_are_returned_first(self, claim):
        now = factories.server_now()
        late = factories.pending_job(scheduled_at=now)
        early = factories.pending_job(scheduled_at=now - MINUTE)
        same_time = factories.pending_job(scheduled_at=now)
        urgent = factories.pending_job(scheduled_at=now, priority=5)
        factories.pending_job(scheduled_at=now, priority=-1)

        assert ids(claim(django_connection, limit=4)) == [
            job.id for job in (urgent, early, late, same_time)
        ]

    def test_a_job_that_somebody_has_locked_is_passed_over(self, claim, connect):
        first, second = factories.pending_jobs(2)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active WHERE id = %s FOR UPDATE", [first.id])

            assert ids(claim(connect())) == [second.id]

    def test_a_row_that_an_open_foreign_key_refers_to_is_not_passed_over(self, claim, connect):
        job = factories.pending_job()
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active WHERE id = %s FOR KEY SHARE", [job.id])

            assert ids(claim(connect())) == [job.id]

    def test_a_capped_tenant_is_not_served_without_its_lock(self, claim):
        factories.TenantConfigFactory(tenant_id=0, max_concurrent_jobs=5)
        factories.pending_job()

        assert claim(django_connection).jobs == []

    def test_all_live_epochs_are_served_and_rows_take_the_newest_of_running_rows(self, claim):
        factories.pending_job(epoch=1)
        factories.pending_job(epoch=2)
        set_epochs(1, 2)
        set_epochs(4, 5, of="jobs_running")

        assert len(claim(django_connection).jobs) == 2
        assert set(ActiveJob.objects.values_list("epoch", flat=True)) == {5}

    def test_the_limit_holds_over_several_epochs(self, claim):
        for epoch in (1, 2, 3):
            factories.pending_jobs(3, epoch=epoch)
        set_epochs(1, 3)

        assert len(claim(django_connection, limit=2).jobs) == 2

    def test_a_full_epoch_of_locked_rows_does_not_hide_the_next(self, claim, connect):
        factories.pending_job(epoch=1)
        job = factories.pending_job(epoch=2)
        set_epochs(1, 2)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active WHERE epoch = 1 FOR UPDATE")

            assert ids(claim(connect(), limit=1)) == [job.id]

    def test_an_epoch_that_is_over_is_not_looked_at(self, claim):
        factories.pending_job(epoch=1)
        set_epochs(2, 2)

        assert claim(django_connection).jobs == []


class TestClaimJobs:
    """Fairness, and the walk over the tenants."""

    def test_tenants_share_evenly_however_much_they_have_waiting(self):
        factories.pending_jobs(40, tenant_id=1)
        factories.pending_jobs(5, tenant_id=2)

        assert tenants(claim_jobs(django_connection, limit=10)) == {1: 5, 2: 5}

    def test_tenants_share_by_their_weights(self):
        factories.TenantConfigFactory(tenant_id=1, quota_weight=30)
        factories.pending_jobs(20, tenant_id=1)
        factories.pending_jobs(20, tenant_id=2)

        assert tenants(claim_jobs(django_connection, limit=8)) == {1: 6, 2: 2}

    def test_what_runs_already_counts(self):
        for _ in range(6):
            factories.running_job(tenant_id=1)
        factories.pending_jobs(20, tenant_id=1)
        factories.pending_jobs(20, tenant_id=2)

        assert tenants(claim_jobs(django_connection, limit=10)) == {1: 2, 2: 8}

    def test_what_runs_in_another_queue_does_not_count(self):
        for _ in range(6):
            factories.running_job(tenant_id=1, queue_name="other")
        factories.pending_jobs(20, tenant_id=1)
        factories.pending_jobs(20, tenant_id=2)

        assert tenants(claim_jobs(django_connection, limit=10)) == {1: 5, 2: 5}

    def test_fractions_are_right_on_average(self):
        factories.TenantConfigFactory(tenant_id=2, quota_weight=30)
        for tenant_id in (1, 2):
            factories.pending_jobs(3, tenant_id=tenant_id)
        taken = Counter()

        for step in range(12):
            with transaction.atomic():
                taken += tenants(claim_jobs(django_connection, limit=2, offset=step / 12))
                transaction.set_rollback(True)

        assert taken == {1: 6, 2: 18}

    @pytest.mark.parametrize("offset", [0.0, 0.5, 0.9999999999999999])
    def test_rounding_never_takes_more_than_the_limit(self, offset):
        for tenant_id, weight in enumerate((1, 3, 7, 11, 13, 999), start=1):
            factories.TenantConfigFactory(tenant_id=tenant_id, quota_weight=weight)
            factories.pending_jobs(9, tenant_id=tenant_id)

        for limit in range(1, 10):
            with transaction.atomic():
                assert len(claim_jobs(django_connection, limit=limit, offset=offset).jobs) <= limit
                transaction.set_rollback(True)

    def test_a_walk_goes_on_where_the_last_one_ended_and_round_to_it(self):
        for tenant_id in range(1, 21):
            factories.pending_jobs(3, tenant_id=tenant_id)

        first = claim_jobs(django_connection, limit=2, after_tenant=18)
        second = claim_jobs(django_connection, limit=2, after_tenant=first.last_tenant)

        assert set(tenants(first)) == {19, 20}
        assert (first.tenants, first.last_tenant, first.is_truncated) == (16, 20, True)
        assert set(tenants(second)) == {1, 2}

    def test_what_does_not_fit_into_a_claim_is_carried_over_to_the_next(self):
        factories.TenantConfigFactory(tenant_id=1, quota_weight=50)
        for tenant_id in range(1, 21):
            factories.pending_jobs(9, tenant_id=tenant_id)

        first = claim_jobs(django_connection, limit=3, after_tenant=0)
        second = claim_jobs(
            django_connection, limit=3, after_tenant=first.last_tenant - 1, carry=first.carry
        )

        assert (set(tenants(first)), first.last_tenant, first.carry) == ({1}, 1, 2)
        assert (tenants(second)[1], second.last_tenant, second.carry) == (2, 2, 0)

    def test_an_even_claim_takes_what_there_is_from_whoever_comes_first(self):
        factories.TenantConfigFactory(tenant_id=1, quota_weight=1)
        factories.TenantConfigFactory(tenant_id=3, quota_weight=1000)
        for tenant_id in (1, 2, 3):
            factories.pending_jobs(3, tenant_id=tenant_id)

        claim = claim_jobs(django_connection, limit=5, evenly=True)

        assert tenants(claim) == {1: 3, 2: 2}
        assert (claim.last_tenant, claim.carry) == (2, 0)

    def test_parts_beyond_the_range_of_an_integer_are_no_error(self, connect):
        for tenant_id in range(20):
            factories.TenantConfigFactory(
                tenant_id=tenant_id, quota_weight=1000, priority_boost=10
            )
            factories.pending_job(tenant_id=tenant_id)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active FOR UPDATE")

            claim = claim_jobs(connect(), limit=2, mean_weight=0.001)

        assert (claim.jobs, claim.is_truncated) == ([], True)

    def test_the_mean_is_of_those_that_may_start_a_job(self):
        factories.TenantConfigFactory(tenant_id=1, quota_weight=1000, max_concurrent_jobs=0)
        for tenant_id in (1, 2):
            factories.pending_job(tenant_id=tenant_id)

        assert claim_jobs(django_connection).mean_weight == 10

    def test_a_walk_of_all_tenants_says_so(self):
        factories.pending_jobs(2, tenant_id=1)
        factories.pending_jobs(2, tenant_id=2)

        claim = claim_jobs(django_connection, limit=4)

        assert (claim.tenants, claim.is_truncated, claim.sole_tenant) == (2, False, None)

    def test_the_only_tenant_is_named(self):
        factories.pending_jobs(3, tenant_id=9)

        assert claim_jobs(django_connection, limit=2).sole_tenant == 9

    def test_an_empty_queue_is_an_empty_claim_that_keeps_its_place(self):
        claim = claim_jobs(django_connection, after_tenant=17)

        assert (claim.jobs, claim.tenants, claim.last_tenant) == ([], 0, 17)
        assert (claim.sole_tenant, claim.is_truncated, claim.capped) == (None, False, False)

    def test_tenants_at_the_ends_of_the_number_range_are_found(self):
        least, most = -(2**63), 2**63 - 1
        factories.pending_job(tenant_id=least)
        factories.pending_job(tenant_id=most)

        assert set(tenants(claim_jobs(django_connection, after_tenant=most))) == {least, most}

    def test_a_tenant_in_two_epochs_is_one_tenant(self):
        factories.pending_jobs(5, tenant_id=1, epoch=1)
        factories.pending_jobs(5, tenant_id=1, epoch=2)
        factories.pending_jobs(5, tenant_id=2, epoch=2)
        set_epochs(1, 2)

        claim = claim_jobs(django_connection, limit=4)

        assert tenants(claim) == {1: 2, 2: 2}
        assert claim.tenants == 2

    def test_a_capped_tenant_that_waits_is_reported(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=5)
        factories.pending_job(tenant_id=1)
        job = factories.pending_job(tenant_id=2)

        claim = claim_jobs(django_connection)

        assert (ids(claim), claim.capped) == ([job.id], True)


class TestCaps:
    """lock_capped_tenants and claim_jobs, in one transaction."""

    @staticmethod
    def claim(connection=django_connection, **values):
        with transaction.atomic():
            locked = lock_capped_tenants(connection)
            return locked, claim_jobs(connection, **values)

    @pytest.mark.parametrize(("running", "room"), [(0, 3), (2, 1), (3, 0), (4, 0)])
    def test_a_cap_leaves_what_does_not_run_yet(self, running, room):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=3)
        for _ in range(running):
            factories.running_job(tenant_id=1)
        factories.pending_jobs(9, tenant_id=1)

        locked, claim = self.claim()

        assert (locked, len(claim.jobs)) == ([1], room)
        assert not claim.capped

    def test_a_cap_counts_all_queues(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=2)
        factories.running_job(tenant_id=1, queue_name="other")
        factories.pending_jobs(9, tenant_id=1)

        _, claim = self.claim()

        assert len(claim.jobs) == 1

    def test_a_cap_of_zero_serves_nothing(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=0)
        factories.pending_job(tenant_id=1)

        assert self.claim()[1].jobs == []

    def test_a_cap_is_one_cap_over_two_epochs(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.pending_jobs(3, tenant_id=1, epoch=1)
        factories.pending_jobs(3, tenant_id=1, epoch=2)
        set_epochs(1, 2)

        assert len(self.claim()[1].jobs) == 1

    def test_a_cap_counts_rows_that_the_snapshot_has_in_an_epoch_that_is_over(self):
        """A restamp and a raise between the snapshot and the reading of the sequences."""
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.running_job(tenant_id=1, epoch=1)
        factories.pending_job(tenant_id=1)
        set_epochs(1, 2, of="jobs_running")

        with transaction.atomic():
            lock_capped_tenants(django_connection)
            set_epochs(2, 2, of="jobs_running")
            claim = claim_jobs(django_connection)

        assert claim.jobs == []

    def test_tenants_without_a_cap_take_what_capped_ones_leave(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.pending_jobs(20, tenant_id=1)
        factories.pending_jobs(20, tenant_id=2)

        _, claim = self.claim(limit=10)

        assert tenants(claim)[1] == 1
        assert tenants(claim)[2] >= 8

    def test_only_capped_tenants_with_work_are_locked(self):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.TenantConfigFactory(tenant_id=2, max_concurrent_jobs=1)
        factories.TenantConfigFactory(tenant_id=3)
        for tenant_id in (1, 3):
            factories.pending_job(tenant_id=tenant_id)

        with transaction.atomic():
            assert lock_capped_tenants(django_connection) == [1]

    def test_the_right_to_claim_ends_with_the_transaction(self, connect):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.pending_job(tenant_id=1)
        connection = connect()
        with connection.transaction():
            lock_capped_tenants(connection)

        claim = claim_jobs(connection)

        assert (claim.jobs, claim.capped) == ([], True)

    def test_a_tenant_that_somebody_else_claims_is_left_out(self, connect):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        factories.pending_jobs(2, tenant_id=1)
        other, connection = connect(), connect()
        with other.transaction():
            lock_capped_tenants(other)
            with connection.transaction():
                assert lock_capped_tenants(connection) == []
                assert claim_jobs(connection).jobs == []

    def test_one_pipelined_call_does_both(self, connect):
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=2)
        factories.pending_jobs(5, tenant_id=1)

        claim = claim_jobs_under_caps(connect())

        assert (len(claim.jobs), claim.capped) == (2, True)

    def test_a_call_that_fails_leaves_no_transaction_open(self, connection):
        with pytest.raises(errors.InvalidDatetimeFormat):
            claim_jobs_under_caps(connection, now="never")

        assert connection.info.transaction_status == TransactionStatus.IDLE


class TestClaimJobsOfTenant:
    """The statement for a queue in which one tenant has work."""

    def test_only_that_tenant_is_served(self):
        job = factories.pending_job(tenant_id=1)
        factories.pending_job(tenant_id=2)

        assert ids(claim_jobs_of_tenant(django_connection, tenant_id=1)) == [job.id]

    @pytest.mark.parametrize("other", [0, 2])
    def test_another_tenant_with_work_is_noticed(self, other):
        factories.pending_job(tenant_id=1)
        factories.pending_job(tenant_id=other)

        claim = claim_jobs_of_tenant(django_connection, tenant_id=1)

        assert (claim.sole_tenant, claim.is_truncated) == (None, True)

    def test_alone_it_stays_the_sole_tenant(self):
        factories.pending_job(tenant_id=1)
        factories.pending_job(tenant_id=2, queue_name="other")
        factories.scheduled_job(tenant_id=3)

        assert claim_jobs_of_tenant(django_connection, tenant_id=1).sole_tenant == 1


class TestFindUnanswered:
    """Claims whose answer got lost."""

    def find(self, *in_hand, limit=10):
        return find_unanswered(
            django_connection, worker_id=WORKER, fence_tokens=in_hand, limit=limit
        )

    def test_what_is_not_in_hand_is_found(self):
        job = factories.running_job()

        assert [(found.id, found.fence_token) for found in self.find(7)] == [
            (job.id, job.fence_token)
        ]

    def test_what_is_in_hand_is_not(self):
        assert self.find(factories.running_job().fence_token) == []

    def test_neither_is_what_is_not_the_workers_own_or_does_not_run(self):
        factories.running_job(worker="worker-b")
        factories.pending_job()
        factories.completed_job()

        assert self.find() == []

    def test_the_limit_holds(self):
        factories.running_job()
        factories.running_job()

        assert len(self.find(limit=1)) == 1


class TestStageJobs:
    """Waiting jobs whose time has come."""

    @pytest.mark.parametrize(
        "status", [JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.RETRYABLE]
    )
    def test_a_job_whose_time_has_come_becomes_pending_in_the_newest_epoch(self, status):
        job = factories.waiting_job(status, due_in=-MINUTE, epoch=1)
        set_epochs(1, 4)

        staged = stage_jobs(django_connection, limit=10)

        job.refresh_from_db()
        assert (staged.staged, staged.next_due) == (1, None)
        assert (job.status, job.epoch) == (JobStatus.PENDING, 4)

    def test_a_job_whose_time_has_not_come_says_how_long_to_wait(self):
        factories.scheduled_job(due_in=timedelta(hours=2))
        factories.scheduled_job(due_in=timedelta(hours=1))

        staged = stage_jobs(django_connection, limit=10)

        assert staged.staged == 0
        assert timedelta(minutes=59) < staged.next_due <= timedelta(hours=1)

    def test_a_blocked_job_is_left_alone(self):
        factories.waiting_job(JobStatus.BLOCKED, due_in=-MINUTE)

        staged = stage_jobs(django_connection, limit=10)

        assert (staged.staged, staged.next_due) == (0, None)

    def test_the_longest_due_go_first_and_more_are_due_at_once(self):
        late = factories.scheduled_job(due_in=-MINUTE)
        early = factories.scheduled_job(due_in=-2 * MINUTE)

        staged = stage_jobs(django_connection, limit=1)

        assert (staged.staged, staged.next_due) == (1, timedelta(0))
        assert ActiveJob.objects.pending().get().id == early.id
        assert ActiveJob.objects.waiting().get().id == late.id

    def test_time_can_be_given(self):
        factories.scheduled_job(due_in=timedelta(days=1))
        factories.scheduled_job(due_in=timedelta(days=3))
        now = factories.server_now() + timedelta(days=2)

        staged = stage_jobs(django_connection, limit=10, now=now)

        assert staged.staged == 1
        assert timedelta(hours=23) < staged.next_due <= timedelta(days=1)

    def test_a_job_that_somebody_has_locked_is_left_to_him(self, connect):
        job = factories.scheduled_job(due_in=-MINUTE)
        with connect() as other, other.transaction():
            other.execute("SELECT FROM jobs_active WHERE id = %s FOR UPDATE", [job.id])

            assert stage_jobs(connect(), limit=10).staged == 0


class TestListQueues:
    """Which queues there are."""

    def test_each_queue_with_pending_jobs_is_listed_once(self):
        factories.pending_jobs(3, queue_name="mail", tenant_id=1)
        factories.pending_job(queue_name="mail", epoch=2)
        factories.pending_job(queue_name="bulk", epoch=2)
        factories.scheduled_job(queue_name="later")
        factories.running_job(queue_name="busy")
        set_epochs(1, 2)

        assert sorted(list_queues(django_connection, limit=10)) == ["bulk", "mail"]

    def test_the_list_has_a_limit(self):
        for name in "abc":
            factories.pending_job(queue_name=name)

        assert len(list_queues(django_connection, limit=2)) == 2


def test_a_small_claim_walks_more_tenants_than_it_needs_and_a_large_one_fewer():
    walked = {limit: tenants_walked(limit) for limit in (1, 16, 50, 80, 100, 500)}

    assert walked == {1: 16, 16: 16, 50: 50, 80: 50, 100: 50, 500: 250}


def test_a_large_claim_takes_two_jobs_of_each_tenant_it_visits(connection):
    for tenant in range(100):
        factories.pending_jobs(3, tenant_id=tenant)

    taken = Counter(tenants(claim_jobs(connection, limit=100, after_tenant=-1)))

    assert taken == dict.fromkeys(range(50), 2)
