"""Jobs belong to the transaction of whoever enqueues them."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Barrier, Event

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.http import HttpResponse
from django.urls import path

from django_pgjobs import EnqueuedJob, enqueue, enqueue_many
from django_pgjobs.exceptions import (
    EnqueueError,
    InvalidOption,
    InvalidPayload,
    PayloadTooLarge,
)
from django_pgjobs.models import ActiveJob
from django_pgjobs.producer import enqueueing
from django_pgjobs.producer.enqueueing import COPY_FROM, INSERT_AT_MOST
from django_pgjobs.producer.jobs import PreparedJob
from django_pgjobs.states import JobStatus
from tests import factories
from tests.app.jobs import add, collect, echo, noop, send
from tests.fix_database import TIMEOUT, wait_until_blocked
from tests.store.calls import complete

EARLY = datetime(1900, 1, 1, 0, 0, 1, tzinfo=UTC)
LATE = datetime(9799, 12, 31, tzinfo=UTC)
CENTURY = timedelta(days=36_525)


class Undo(Exception):
    """Rolls a block back."""


@contextmanager
def undone():
    """Roll back what is done inside."""
    with suppress(Undo), transaction.atomic():
        yield
        raise Undo


def count(observer):
    """Return how many jobs another connection sees."""
    return observer.execute("SELECT count(*) FROM jobs_active").fetchone()[0]


def ids_in_order():
    return list(ActiveJob.objects.order_by("id").values_list("id", flat=True))


def in_own_connection(function, *args):
    """Call ``function`` in a thread, and close what it opened."""
    try:
        return function(*args)
    finally:
        connections.close_all()


@pytest.fixture
def observer(connect):
    """Return a second connection."""
    return connect()


# Transactions


def test_a_job_is_seen_when_its_transaction_commits_and_once(observer):
    with transaction.atomic():
        enqueued = echo.enqueue(1)
        before = count(observer)

    assert before == 0
    assert observer.execute("SELECT id FROM jobs_active").fetchall() == [(enqueued.id,)]


def test_without_a_transaction_a_job_is_seen_at_once(observer):
    noop.enqueue()

    assert count(observer) == 1


def test_a_rollback_leaves_no_job(observer):
    with undone():
        noop.enqueue()
        enqueue_many([noop.prepare()] * COPY_FROM)

    assert count(observer) == 0


def test_a_rolled_back_savepoint_leaves_out_its_jobs_only(observer):
    with transaction.atomic():
        first = echo.enqueue(1)
        with undone():
            echo.enqueue(2)
        third = echo.enqueue(3)

    assert ids_in_order() == [first.id, third.id]


def test_a_durable_block_commits_its_jobs(observer):
    with transaction.atomic(durable=True):
        noop.enqueue()

    assert count(observer) == 1


def test_no_callback_waits_for_the_commit(tables):
    with transaction.atomic():
        noop.enqueue()
        callbacks = list(connection.run_on_commit)

    assert callbacks == []


def test_a_job_and_the_rows_that_it_is_about_are_committed_together(observer):
    with undone():
        group = Group.objects.create(name="buyers")
        echo.enqueue(group.pk)

    assert (count(observer), Group.objects.count()) == (0, 0)


def enqueue_and_fail(request):
    noop.enqueue()
    raise Undo


def enqueue_and_answer(request):
    return HttpResponse(noop.enqueue().id)


urlpatterns = [path("fail/", enqueue_and_fail), path("answer/", enqueue_and_answer)]


@pytest.fixture
def atomic_client(client, settings, monkeypatch):
    """Return a client of the views above, each of which is in a transaction."""
    settings.ROOT_URLCONF = __name__
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize(("address", "jobs"), [("/fail/", 0), ("/answer/", 1)])
def test_a_view_in_a_transaction_enqueues_if_it_succeeds(observer, atomic_client, address, jobs):
    atomic_client.get(address)

    assert count(observer) == jobs


# Idempotency keys

keyed = noop.using(idempotency_key="k")


def test_a_taken_key_returns_the_job_that_holds_it(tables):
    first = keyed.enqueue()

    with transaction.atomic():
        second = keyed.enqueue()
        groups = Group.objects.count()

    assert first == EnqueuedJob(first.id, "tests.noop", created=True)
    assert second == EnqueuedJob(first.id, "tests.noop", created=False)
    assert groups == 0
    assert ids_in_order() == [first.id]


def test_a_key_taken_in_the_same_transaction_returns_that_job(tables):
    with transaction.atomic():
        first, second = keyed.enqueue(), keyed.enqueue()

    assert (second.id, second.created) == (first.id, False)


@pytest.mark.parametrize(
    "other",
    [
        noop.using(idempotency_key="K"),
        noop.using(idempotency_key="k", tenant=1),
        collect.using(idempotency_key="k"),
        noop,
    ],
    ids=["key", "tenant", "job", "none"],
)
def test_a_key_is_of_one_tenant_and_one_job(tables, other):
    keyed.enqueue()

    assert other.enqueue().created


def test_the_queue_is_no_part_of_a_key(tables):
    keyed.enqueue()

    assert not keyed.using(queue="other", priority=9).enqueue().created


@pytest.mark.parametrize("status", [JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.RETRYABLE])
def test_a_waiting_job_holds_its_key(tables, status):
    holder = factories.waiting_job(status, due_in=timedelta(hours=1), idempotency_key="k")

    assert keyed.enqueue() == EnqueuedJob(holder.id, "tests.noop", created=False)


def test_a_key_is_free_again_when_its_job_has_finished(connection, tables):
    holder = factories.running_job(idempotency_key="k")
    held = keyed.enqueue()
    complete(connection, holder)

    again = keyed.enqueue()

    assert (held.id, held.created) == (holder.id, False)
    assert again.created
    assert again.id != holder.id


def test_a_holder_that_finishes_between_two_looks_frees_its_key(connection, tables):
    holder = factories.running_job(idempotency_key="k")

    def finish_first(execute, sql, params, many, context):
        if "find_unfinished" in sql:
            complete(connection, holder)
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(finish_first):
        enqueued = keyed.enqueue()

    assert enqueued.created


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_holder_that_is_never_seen_is_given_up(observer, many):
    keyed.enqueue()

    def hide_from_looks(execute, sql, params, many, context):
        key = "hidden" if "find_unfinished" in sql else "k"
        observer.execute("UPDATE jobs_active SET idempotency_key = %s", [key])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(hide_from_looks), pytest.raises(EnqueueError) as caught:
        enqueue_many([keyed.prepare()]) if many else keyed.enqueue()

    assert str(caught.value) == (
        "The idempotency key 'k' of tests.noop is taken, but no unfinished job that holds it "
        "was found at 10 looks. Either such jobs come and go very fast, or a row security "
        "policy hides them."
    )
    assert count(observer) == 1


def test_a_rolled_back_holder_frees_its_key(tables):
    with undone():
        keyed.enqueue()

    assert keyed.enqueue().created


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_key_that_is_just_being_taken_is_waited_for(observer, background, is_committed, many):
    connected, second_connection = Event(), []

    def enqueue_second():
        with transaction.atomic():
            Group.objects.count()
            second_connection.append(connections["default"].connection)
            connected.set()
            second = enqueue_many([keyed.prepare()])[0] if many else keyed.enqueue()
            # The transaction is usable.
            Group.objects.count()
            return second

    with transaction.atomic():
        first = keyed.enqueue()
        future = background(in_own_connection, enqueue_second)
        assert connected.wait(TIMEOUT)
        wait_until_blocked(observer, second_connection[0])
        transaction.set_rollback(not is_committed)
    second = future.result(TIMEOUT)

    assert second.created is not is_committed
    assert (second.id == first.id) is is_committed
    assert ids_in_order() == [second.id]


def test_sixteen_at_a_time_make_one_job_of_one_key(tables):
    barrier = Barrier(16)

    def enqueue_together():
        with transaction.atomic():
            Group.objects.count()
            barrier.wait(TIMEOUT)
            return keyed.enqueue()

    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(in_own_connection, enqueue_together) for _ in range(16)]
        enqueued = [future.result(TIMEOUT) for future in futures]

    assert sum(job.created for job in enqueued) == 1
    assert {job.id for job in enqueued} == set(ids_in_order())


@pytest.mark.parametrize("at_most", [INSERT_AT_MOST, 30], ids=["one statement", "several"])
def test_two_bulks_with_the_same_keys_in_other_orders_do_not_deadlock(
    tables, monkeypatch, at_most
):
    monkeypatch.setattr(enqueueing, "INSERT_AT_MOST", at_most)
    barrier = Barrier(2)
    keys = [f"key {number}" for number in range(200)]

    def enqueue_all(ordered):
        prepared = [noop.using(idempotency_key=key).prepare() for key in ordered]
        barrier.wait(TIMEOUT)
        return enqueue_many(prepared)

    with ThreadPoolExecutor(2) as pool:
        futures = [
            pool.submit(in_own_connection, enqueue_all, ordered) for ordered in (keys, keys[::-1])
        ]
        first, second = [future.result(TIMEOUT) for future in futures]

    assert [job.id for job in first] == [job.id for job in reversed(second)]
    assert sum(job.created for job in first + second) == 200


def test_jobs_of_several_statements_are_claimed_in_the_order_given(tables, monkeypatch):
    monkeypatch.setattr(enqueueing, "INSERT_AT_MOST", 3)
    keys = ["d", "b", None, "ä", "a", None, "d", "B", "e"]

    enqueued = enqueue_many(noop.using(idempotency_key=key).prepare() for key in keys)

    ids = [job.id for job in enqueued]
    assert ids[6] == ids[0]
    assert [job.created for job in enqueued] == [index != 6 for index in range(9)]
    claimed_in_order = ActiveJob.objects.order_by("claim_order", "id").values_list("id", flat=True)
    assert list(claimed_in_order) == ids[:6] + ids[7:] == sorted(set(ids))


# Snapshots


def test_a_caller_with_a_snapshot_enqueues(tables):
    keyed.enqueue()

    with transaction.atomic():
        use_one_snapshot()
        again = keyed.enqueue()
        other = noop.using(idempotency_key="other").enqueue()
        bulk = enqueue_many([noop.prepare()] * COPY_FROM)

    assert (again.created, other.created, len(bulk)) == (False, True, COPY_FROM)


def test_a_key_taken_behind_a_snapshot_is_a_serialization_failure(observer, background):
    """Such a caller has to begin again anyway: it cannot see the job that it would be told of."""

    @transaction.atomic
    def enqueue_late():
        use_one_snapshot()
        Group.objects.count()
        background(in_own_connection, keyed.enqueue).result(TIMEOUT)
        keyed.enqueue()

    with pytest.raises(OperationalError) as caught:
        enqueue_late()

    assert caught.value.__cause__.sqlstate == "40001"
    assert count(observer) == 1


def use_one_snapshot():
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


# Many


def prepared(numbers, job=echo):
    return [job.prepare(number) for number in numbers]


@pytest.mark.parametrize("size", [1, 2, COPY_FROM - 1, COPY_FROM, COPY_FROM + 1])
def test_results_are_in_the_order_of_the_jobs(tables, size):
    enqueued = enqueue_many(prepared(range(size)))

    payloads = dict(ActiveJob.objects.values_list("id", "payload"))
    assert [payloads[job.id] for job in enqueued] == [{"value": number} for number in range(size)]
    assert [job.id for job in enqueued] == sorted(payloads)
    assert all(job.created and job.name == "tests.echo" for job in enqueued)


def test_nothing_is_enqueued_without_a_query(django_assert_num_queries, db):
    with django_assert_num_queries(0):
        assert enqueue_many([]) == []
        assert enqueue_many(iter(())) == []


def test_jobs_may_come_from_a_generator(tables):
    enqueued = enqueue_many(add.prepare(number) for number in range(3))

    assert len(enqueued) == 3


def test_one_prepared_job_may_be_enqueued_again(tables):
    one = noop.prepare()

    assert len({job.id for job in enqueue_many([one, one])}) == 2


def test_a_bulk_of_1000_with_500_duplicates_makes_500_jobs(tables):
    jobs = [
        echo.using(idempotency_key=f"key {number % 500}").prepare(number) for number in range(1000)
    ]

    enqueued = enqueue_many(jobs)

    assert ActiveJob.objects.count() == 500
    assert [job.created for job in enqueued] == [True] * 500 + [False] * 500
    assert [job.id for job in enqueued[:500]] == [job.id for job in enqueued[500:]]
    values = ActiveJob.objects.values_list("payload__value", flat=True)
    assert sorted(values) == list(range(500))


def test_keys_that_are_taken_and_free_and_absent_may_be_mixed(tables):
    holder = noop.using(idempotency_key="taken").enqueue()
    plain, free, taken = (
        noop,
        noop.using(idempotency_key="free"),
        noop.using(idempotency_key="taken"),
    )

    enqueued = enqueue_many(
        [job.prepare() for job in (plain, taken, free, plain, free, taken, plain)]
    )

    assert [job.created for job in enqueued] == [True, False, True, True, False, False, True]
    assert enqueued[1].id == enqueued[5].id == holder.id
    assert enqueued[4].id == enqueued[2].id
    assert ActiveJob.objects.count() == 5


def test_the_jobs_of_a_bulk_are_in_line_as_they_were_given_whatever_their_keys(tables):
    keys = ["b", "c", "a", None, "0"]

    enqueued = enqueue_many([noop.using(idempotency_key=key).prepare() for key in keys])

    assert [job.id for job in enqueued] == ids_in_order()


@pytest.mark.parametrize("size", [3, COPY_FROM], ids=["INSERT", "COPY"])
def test_a_bulk_writes_what_single_jobs_write(tables, size):
    at = datetime(2100, 1, 1, tzinfo=UTC)
    kinds = [
        send.using(tags=["a", "\\N\t\n\\"]).prepare("\\.\n\t\b\\x", subject="é\u2028'\""),
        noop.using(at=at, expires=timedelta(days=1), tenant=-5, queue="q", priority=-9).prepare(),
        noop.using(delay=timedelta(hours=1), max_attempts=9, expires=at).prepare(),
    ]
    single = [
        send.using(tags=["a", "\\N\t\n\\"]).enqueue("\\.\n\t\b\\x", subject="é\u2028'\""),
        noop.using(at=at, expires=timedelta(days=1), tenant=-5, queue="q", priority=-9).enqueue(),
        noop.using(delay=timedelta(hours=1), max_attempts=9, expires=at).enqueue(),
    ]

    bulk = enqueue_many((kinds * size)[:size])

    assert [row_of(job) for job in bulk[:3]] == [row_of(job) for job in single]


def row_of(enqueued):
    """Return the row without what is its own: instants as distances from the enqueue."""
    fields = [field.attname for field in ActiveJob._meta.fields if not field.generated]
    row = ActiveJob.objects.values(*fields).get(pk=enqueued.id)
    begun = row.pop("created_at")
    del row["id"]
    for name in ("scheduled_at", "expires_at"):
        if row[name] is not None and row[name].year < 2100:
            row[name] -= begun
    return row


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_copy_needs_no_time_zone_support(tables, settings, zone):
    settings.USE_TZ = False
    settings.TIME_ZONE = zone
    now = factories.query_value("SELECT now()::timestamp")
    hour = timedelta(hours=1)
    kinds = [
        noop.prepare(),
        noop.using(at=now + hour).prepare(),
        noop.using(at=now - hour).prepare(),
        noop.using(delay=hour).prepare(),
    ]

    enqueued = enqueue_many(kinds * (COPY_FROM // 4))

    rows = ActiveJob.objects.in_bulk([job.id for job in enqueued[:4]])
    due, later, earlier, delayed = (rows[job.id] for job in enqueued[:4])
    assert [row.status for row in (due, later, earlier, delayed)] == [
        "pending",
        "scheduled",
        "pending",
        "scheduled",
    ]
    assert due.scheduled_at == due.created_at
    assert abs(due.created_at - now) < timedelta(minutes=5)
    assert (later.scheduled_at, earlier.scheduled_at) == (now + hour, now - hour)
    assert delayed.scheduled_at == delayed.created_at + hour


@pytest.mark.parametrize(
    "size", [3, COPY_FROM, INSERT_AT_MOST + 1], ids=["INSERT", "COPY", "second INSERT"]
)
def test_a_failure_half_way_leaves_nothing_and_a_usable_transaction(tables, size):
    jobs = [noop.prepare()] * size
    if size > INSERT_AT_MOST:
        jobs[0] = keyed.prepare()
    jobs[-1] = PreparedJob(dataclasses.replace(noop.prepare().row, max_attempts=10_001))

    with transaction.atomic():
        kept = noop.enqueue()
        with pytest.raises(IntegrityError, match="jobs_active_max_attempts"):
            enqueue_many(jobs)
        groups = Group.objects.count()

    assert groups == 0
    assert ids_in_order() == [kept.id]


@pytest.mark.slow
@pytest.mark.parametrize("is_keyed", [False, True], ids=["COPY", "INSERT"])
def test_100000_jobs_are_enqueued_at_once(tables, is_keyed):
    jobs = prepared(range(100_000))
    if is_keyed:
        jobs[50_000] = echo.using(idempotency_key="k").prepare(50_000)

    enqueued = enqueue_many(jobs)

    assert len({job.id for job in enqueued}) == ActiveJob.objects.count() == 100_000
    assert ActiveJob.objects.get(pk=enqueued[-1].id).payload == {"value": 99_999}
    assert ActiveJob.objects.get(pk=enqueued[50_000].id).payload == {"value": 50_000}


# Mistakes


def circular():
    value = []
    value.append(value)
    return value


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


MISTAKES = {
    "nul": (InvalidPayload, lambda: echo.enqueue("\x00")),
    "nul in a key": (InvalidPayload, lambda: echo.enqueue({"\x00": 1})),
    "nul in a name": (InvalidPayload, lambda: collect.enqueue(**{"\x00": 1})),
    "surrogate": (InvalidPayload, lambda: echo.enqueue("\ud800")),
    "not a number": (InvalidPayload, lambda: echo.enqueue(math.nan)),
    "set": (InvalidPayload, lambda: echo.enqueue({1})),
    "nesting": (InvalidPayload, lambda: echo.enqueue(nested(20_000))),
    "circle": (InvalidPayload, lambda: echo.enqueue(circular())),
    "size": (PayloadTooLarge, lambda: echo.enqueue("x" * 65_536)),
    "huge integer": (InvalidPayload, lambda: echo.enqueue(10**100_000)),
    "signature": (InvalidPayload, lambda: noop.enqueue(1)),
    "queue": (InvalidOption, lambda: noop.using(queue="q" * 10_000).enqueue()),
    "queue with nul": (InvalidOption, lambda: noop.using(queue="\x00").enqueue()),
    "delay": (InvalidOption, lambda: noop.using(delay=timedelta.max).enqueue()),
    "instant": (InvalidOption, lambda: noop.using(at=datetime.max).enqueue()),
    "key": (InvalidOption, lambda: noop.using(idempotency_key="k\x00").enqueue()),
    "tag": (InvalidOption, lambda: noop.using(tags=["\ud800"]).enqueue()),
    "tenant": (InvalidOption, lambda: noop.using(tenant=2**63).enqueue()),
    "name": (EnqueueError, lambda: enqueue("tests.unknown")),
    "name with nul": (EnqueueError, lambda: enqueue("\x00")),
    "arguments": (InvalidPayload, lambda: enqueue("tests.collect", {1: 1})),
    "one of many": (InvalidPayload, lambda: enqueue_many(echo.prepare(x) for x in (1, b""))),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_sends_no_query_and_leaves_the_transaction_usable(
    db, django_assert_num_queries, mistake
):
    error, act = MISTAKES[mistake]

    with django_assert_num_queries(0), pytest.raises(error):
        act()

    assert Group.objects.count() == 0
    assert ActiveJob.objects.count() == 0


LONGEST = {
    "early and urgent": lambda: noop.using(priority=32_767, at=EARLY).enqueue(),
    "late and idle": lambda: noop.using(priority=-32_767, at=LATE, tenant=1 - 2**63).enqueue(),
    "delay": lambda: noop.using(delay=CENTURY, expires=CENTURY, tenant=2**63 - 1).enqueue(),
    "queue": lambda: noop.using(queue="q" * 63).enqueue(),
    "key": lambda: noop.using(idempotency_key="k" * 255).enqueue(),
    "tags": lambda: noop.using(tags=["t" * 255] * 100).enqueue(),
    "payload": lambda: echo.enqueue("x" * (65_536 - len('{"value":""}'))),
}


@pytest.mark.parametrize("field", LONGEST)
def test_the_extreme_values_are_stored(db, field):
    """No limit of the server, such as that of an index, is smaller."""
    enqueued = LONGEST[field]()

    assert ActiveJob.objects.get().id == enqueued.id
