"""Producers wake sleeping workers, and nobody else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from django_pgjobs import enqueue_many, job
from django_pgjobs.models import ActiveJob
from django_pgjobs.producer.waking import awake


@job(name="tests.waking.noop")
def noop():
    pass


@pytest.fixture(autouse=True)
def ask_again():
    awake.forget()
    yield
    awake.forget()


def add_worker(connection, name: str, *, idle: bool = True, queue: str = "default") -> None:
    connection.execute(
        "INSERT INTO job_workers (worker_id, hostname, pid, queues, concurrency, started_at, "
        "heartbeat_at, channel, idle_since, idle_queues) VALUES "
        "(%s, 'host', 1, %s, 10, now(), now(), %s, CASE WHEN %s THEN now() END, %s)",
        [name, [queue], f"channel_{name}", idle, [queue] if idle else []],
    )


@pytest.fixture
def listen(connect):
    """Return a function that listens for workers, and one that tells who was notified."""
    listener = connect()

    def start(*names):
        for name in names:
            add_worker(listener, name)
            listener.execute(f"LISTEN channel_{name}")
        return lambda: [n.channel for n in listener.notifies(timeout=0.2)]

    return start


def test_one_job_wakes_one_of_many_sleeping_workers(listen):
    heard = listen("a", "b", "c")

    noop.enqueue()

    assert len(heard()) == 1


def test_a_worker_is_woken_when_the_transaction_commits(listen):
    heard = listen("a")

    with transaction.atomic():
        noop.enqueue()
        assert heard() == []

    assert heard() == ["channel_a"]


def test_a_transaction_that_rolls_back_wakes_nobody(listen):
    heard = listen("a")

    with transaction.atomic():
        noop.enqueue()
        transaction.set_rollback(True)

    assert heard() == []


def test_a_bulk_wakes_as_many_workers_as_have_something_to_do(listen, settings):
    settings.PGJOBS = {"CONCURRENCY": 10}
    heard = listen("a", "b", "c", "d")

    enqueue_many(noop.prepare() for _ in range(25))

    assert len(set(heard())) == 3


def test_busy_workers_are_not_notified(listen, connection):
    heard = listen()
    add_worker(connection, "busy", idle=False)
    connection.execute("LISTEN channel_busy")

    noop.enqueue()

    assert heard() == []
    assert list(connection.notifies(timeout=0.1)) == []


def test_workers_of_other_queues_are_not_notified(listen):
    heard = listen("a")

    noop.using(queue="other").enqueue()

    assert heard() == []


def test_while_nobody_sleeps_an_enqueue_is_one_query(tables, django_assert_num_queries):
    noop.enqueue()

    with django_assert_num_queries(1):
        noop.enqueue()


def test_an_enqueue_that_looks_for_sleepers_is_one_query_too(listen, django_assert_num_queries):
    heard = listen("a")

    with django_assert_num_queries(1):
        first = noop.enqueue()

    assert heard() == ["channel_a"]
    assert list(ActiveJob.objects.values_list("id", flat=True)) == [first.id]


def test_in_a_transaction_it_looks_with_a_second(listen, django_assert_num_queries):
    heard = listen("a")

    with transaction.atomic(), django_assert_num_queries(2):
        noop.enqueue()

    assert heard() == ["channel_a"]


def test_and_so_where_the_server_binds_parameters(jobs_alias, django_assert_num_queries):
    connections[jobs_alias].settings_dict["OPTIONS"] = {"server_side_binding": True}

    with django_assert_num_queries(2, connection=connections[jobs_alias]):
        job_id = noop.enqueue().id

    assert ActiveJob.objects.get().id == job_id


def test_a_job_that_is_refused_wakes_nobody(listen, connection):
    heard = listen("a")
    connection.execute("ALTER TABLE jobs_active ADD CONSTRAINT refused CHECK (priority < 7)")

    try:
        with pytest.raises(IntegrityError, match="refused"):
            noop.using(priority=7).enqueue()
    finally:
        connection.execute("ALTER TABLE jobs_active DROP CONSTRAINT refused")

    assert heard() == []
    assert not ActiveJob.objects.exists()


def test_without_listening_an_enqueue_is_one_query(tables, settings, django_assert_num_queries):
    settings.PGJOBS = {"LISTEN": False}

    with django_assert_num_queries(1):
        noop.enqueue()


def test_a_job_that_is_due_later_wakes_nobody(listen):
    heard = listen("a")

    noop.using(delay=timedelta(hours=1)).enqueue()

    assert heard() == []


def test_a_job_that_is_due_before_the_next_look_wakes_a_worker(listen):
    heard = listen("a")

    noop.using(delay=timedelta(milliseconds=100)).enqueue()

    assert heard() == ["channel_a"]


def test_a_key_that_is_taken_wakes_nobody(listen):
    noop.using(idempotency_key="k").enqueue()
    awake.forget()
    heard = listen("a")

    noop.using(idempotency_key="k").enqueue()

    assert heard() == []


def test_a_worker_that_has_long_been_silent_is_not_woken_in_place_of_a_live_one(
    listen, connection
):
    heard = listen("a", "dead")
    connection.execute(
        "UPDATE job_workers SET heartbeat_at = now() - interval '1 hour' WHERE worker_id = 'dead'"
    )

    for _ in range(5):
        noop.enqueue()

    assert set(heard()) == {"channel_a"}
