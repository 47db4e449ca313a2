"""Writing jobs in the caller's transaction."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.db import transaction as django_transaction

from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from django_pgjobs.store.enqueue import (
    NewJob,
    copy_jobs,
    enqueue_job,
    enqueue_jobs,
    find_unfinished,
    reserve_ids,
)
from tests import factories
from tests.fix_database import FIRST_EPOCHS, wait_until_blocked

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def database_access(request):
    request.getfixturevalue("tables" if "connect" in request.fixturenames else "db")
    yield
    factories.query_value(FIRST_EPOCHS)


def new_job(**values):
    defaults = {
        "job_name": "tests.noop",
        "queue": "default",
        "tenant_id": 0,
        "priority": 0,
        "payload": "{}",
        "payload_version": 1,
        "max_attempts": 3,
    }
    return NewJob(**{**defaults, **values})


def by_single(connection, job):
    return enqueue_job(connection, job)


def by_many(connection, job):
    written = enqueue_jobs(connection, [job])
    return written[0].id if written else None


def by_copy(connection, job):
    with django_transaction.atomic():
        return copy_jobs(connection, [job])[0]


EVERY_WAY = pytest.mark.parametrize("write", [by_single, by_many, by_copy])
WITH_KEYS = pytest.mark.parametrize("write", [by_single, by_many])


@EVERY_WAY
class TestEveryWay:
    """What a single INSERT, one of many rows and a COPY have in common."""

    def test_all_columns_are_written(self, write):
        factories.query_value("SELECT setval('jobs_epoch', 5)")
        before = factories.server_now()

        job_id = write(
            connection,
            new_job(
                queue="mail",
                tenant_id=7,
                priority=-3,
                payload='{"order": 7}',
                payload_version=2,
                max_attempts=9,
                group_key="g",
                meta='{"tags": ["x"]}',
            ),
        )

        job = ActiveJob.objects.get()
        assert (job.id, job.job_name, job.queue_name) == (job_id, "tests.noop", "mail")
        assert (job.tenant_id, job.priority, job.max_attempts) == (7, -3, 9)
        assert (job.payload, job.payload_version) == ({"order": 7}, 2)
        assert (job.group_key, job.meta, job.epoch) == ("g", {"tags": ["x"]}, 5)
        assert (job.attempt, job.claims, job.generation) == (0, 0, 0)
        assert before <= job.created_at <= factories.server_now()

    def test_a_job_without_a_time_is_pending_at_once(self, write):
        write(connection, new_job())

        job = ActiveJob.objects.get()
        assert (job.status, job.expires_at) == (JobStatus.PENDING, None)
        assert job.scheduled_at == job.created_at

    def test_a_job_of_the_past_is_pending(self, write):
        scheduled_at = factories.server_now() - MINUTE
        write(connection, new_job(scheduled_at=scheduled_at))

        job = ActiveJob.objects.get()
        assert (job.status, job.scheduled_at) == (JobStatus.PENDING, scheduled_at)

    def test_a_job_of_the_future_is_scheduled(self, write):
        scheduled_at = factories.server_now() + MINUTE
        write(connection, new_job(scheduled_at=scheduled_at))

        job = ActiveJob.objects.get()
        assert (job.status, job.scheduled_at) == (JobStatus.SCHEDULED, scheduled_at)

    def test_a_delay_counts_from_the_servers_clock(self, write):
        write(connection, new_job(delay=MINUTE))

        job = ActiveJob.objects.get()
        assert (job.status, job.scheduled_at) == (JobStatus.SCHEDULED, job.created_at + MINUTE)

    def test_an_expiry_counts_from_the_scheduled_time(self, write):
        write(connection, new_job(delay=MINUTE, expires_in=2 * MINUTE))

        job = ActiveJob.objects.get()
        assert job.expires_at == job.scheduled_at + 2 * MINUTE

    def test_an_expiry_may_be_an_instant(self, write):
        expires_at = factories.server_now() + MINUTE
        write(connection, new_job(expires_at=expires_at))

        assert ActiveJob.objects.get().expires_at == expires_at

    def test_a_rolled_back_job_never_was(self, write):
        with django_transaction.atomic():
            write(connection, new_job())
            django_transaction.set_rollback(True)

        assert not ActiveJob.objects.exists()


@WITH_KEYS
class TestKeys:
    """At most one unfinished job for each tenant, name and key."""

    def test_a_key_that_is_taken_is_refused(self, write):
        assert write(connection, new_job(idempotency_key="k")) is not None
        assert write(connection, new_job(idempotency_key="k")) is None
        assert ActiveJob.objects.count() == 1

    def test_the_caller_can_go_on_in_his_transaction(self, write):
        with django_transaction.atomic():
            write(connection, new_job(idempotency_key="k"))
            write(connection, new_job(idempotency_key="k"))

            assert write(connection, new_job()) is not None

    def test_tenants_and_jobs_have_keys_of_their_own(self, write):
        write(connection, new_job(idempotency_key="k"))

        assert write(connection, new_job(idempotency_key="k", tenant_id=1))
        assert write(connection, new_job(idempotency_key="k", job_name="tests.other"))

    def test_jobs_without_keys_do_not_meet(self, write):
        assert write(connection, new_job())
        assert write(connection, new_job())

    def test_a_running_job_holds_its_key_and_a_finished_one_does_not(self, write):
        factories.running_job(idempotency_key="running")
        factories.dead_job(idempotency_key="dead")

        assert write(connection, new_job(idempotency_key="running")) is None
        assert write(connection, new_job(idempotency_key="dead"))

    @pytest.mark.parametrize("commits", [True, False])
    def test_the_second_waits_for_what_becomes_of_the_first(
        self, connect, background, write, commits
    ):
        first, second, observer = connect(), connect(), connect()
        with first.transaction(force_rollback=not commits):
            write(first, new_job(idempotency_key="k"))
            waiting = background(write, second, new_job(idempotency_key="k"))
            wait_until_blocked(observer, second)

        assert (waiting.result() is None) is commits
        assert ActiveJob.objects.count() == 1


class TestEnqueueJobs:
    """Many at once."""

    def test_positions_tell_which_is_which(self):
        jobs = [new_job(payload=f'{{"n": {n}}}', tenant_id=9 - n) for n in range(1, 9)]

        written = enqueue_jobs(connection, jobs)

        payloads = dict(ActiveJob.objects.values_list("id", "payload"))
        assert {row.position: payloads[row.id]["n"] for row in written} == {
            n: n for n in range(1, 9)
        }

    def test_ids_ascend_with_the_position(self):
        jobs = [new_job(idempotency_key=key, tenant_id=9) for key in "cab"]

        written = enqueue_jobs(connection, jobs)

        in_order = sorted(written, key=lambda row: row.position)
        assert [row.id for row in in_order] == sorted(row.id for row in written)

    def test_the_first_of_two_with_one_key_is_written(self):
        jobs = [new_job(idempotency_key="k", payload=f'{{"n": {n}}}') for n in (1, 2)]

        assert [row.position for row in enqueue_jobs(connection, jobs)] == [1]
        assert ActiveJob.objects.get().payload == {"n": 1}

    def test_calls_with_common_keys_in_another_order_do_not_deadlock(self, connect, background):
        first, second, observer = connect(), connect(), connect()
        keys = [f"key {n}" for n in range(50)]
        with first.transaction():
            enqueue_jobs(first, [new_job(idempotency_key=key) for key in keys])
            waiting = background(
                enqueue_jobs, second, [new_job(idempotency_key=key) for key in reversed(keys)]
            )
            wait_until_blocked(observer, second)
            enqueue_jobs(first, [new_job(idempotency_key="last")])

        assert waiting.result() == []
        assert ActiveJob.objects.count() == 51

    def test_no_job_is_no_error(self):
        assert enqueue_jobs(connection, []) == []


class TestFindUnfinished:
    """Who holds a key."""

    def test_each_holder_is_found_at_its_position(self):
        holder = factories.running_job(idempotency_key="b", tenant_id=3)
        factories.dead_job(idempotency_key="c")
        wanted = [new_job(idempotency_key=key, tenant_id=3) for key in "abc"]

        assert [(row.position, row.id) for row in find_unfinished(connection, wanted)] == [
            (2, holder.id)
        ]

    def test_another_tenants_or_jobs_key_is_not_taken_for_it(self):
        factories.pending_job(idempotency_key="k", tenant_id=3)

        assert not find_unfinished(connection, [new_job(idempotency_key="k", tenant_id=4)])
        assert not find_unfinished(
            connection, [new_job(idempotency_key="k", tenant_id=3, job_name="tests.other")]
        )


class TestCopyJobs:
    """Very many at once."""

    def test_ids_come_in_the_order_of_the_jobs(self):
        jobs = [new_job(payload=f'{{"n": {n}}}') for n in range(20)]

        ids = copy_jobs(connection, jobs)

        payloads = dict(ActiveJob.objects.values_list("id", "payload"))
        assert [payloads[job_id]["n"] for job_id in ids] == list(range(20))

    def test_it_works_on_a_raw_connection_too(self, connect):
        with connect() as raw, raw.transaction():
            copy_jobs(raw, [new_job(delay=MINUTE), new_job(meta='{"a": "\\\\ \\t"}')])

        assert ActiveJob.objects.count() == 2

    def test_a_row_that_the_tables_refuse_writes_none(self, connect):
        jobs = [new_job(), dataclasses.replace(new_job(), max_attempts=0)]
        raw = connect()

        with pytest.raises(psycopg.errors.CheckViolation), raw.transaction():
            copy_jobs(raw, jobs)

        assert not ActiveJob.objects.exists()

    def test_reserved_ids_are_never_given_twice(self):
        first = reserve_ids(connection, count=3)
        second = reserve_ids(connection, count=2)

        ids = [place.id for place in (*first, *second)]
        assert ids == sorted(set(ids))
        assert len(ids) == 5
