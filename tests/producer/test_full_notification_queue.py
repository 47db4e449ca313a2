"""A notification queue that somebody's idle listener has filled."""

from __future__ import annotations

import os
from contextlib import suppress

import psycopg
import pytest

from django_pgjobs.store.enqueue import wake_workers
from tests.fix_database import database
from tools.postgres import PostgresServer

# Before PostgreSQL 17 the queue is 8 GB, whatever one says.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("PGJOBS_TEST_PG_VERSION") in {"15", "16"}, reason="too much to fill"
    ),
]

FILL = "SELECT count(pg_notify('theirs', repeat('x', 7000) || n)) FROM generate_series(1, %s) AS n"
USAGE = "SELECT pg_notification_queue_usage()"


@pytest.fixture(scope="module")
def address():
    """Return the address of a database of a server whose queue is as small as can be."""
    with (
        PostgresServer.ephemeral(
            settings={"fsync": False, "shared_buffers": "16MB", "max_notify_queue_pages": 64}
        ) as server,
        database(server.url(), "full") as address,
    ):
        yield address


@pytest.fixture
def connection(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job_workers (worker_id, hostname, pid, queues, concurrency, started_at, "
            "heartbeat_at, channel, idle_since, idle_queues) VALUES ('sleeper', 'host', 1, "
            "'{default}', 10, now(), now(), 'ours', now(), '{default}')"
        )
        yield connection
        connection.execute("DELETE FROM job_workers")


@pytest.fixture
def listener(address):
    """Return a connection that listens, and has been left in a transaction."""
    with psycopg.connect(address, autocommit=True) as listener:
        listener.execute("LISTEN theirs")
        listener.execute("BEGIN")
        listener.execute("SELECT 1")
        yield listener


def fill(connection) -> None:
    """Notify until the queue takes hardly any more."""
    for _ in range(1_000):
        with suppress(psycopg.errors.ProgramLimitExceeded):
            connection.execute(FILL, [3])
        if connection.execute(USAGE).fetchone()[0] > 0.9:
            return
    raise AssertionError("The queue is never full.")


def test_it_fails_who_notifies(connection, listener):
    fill(connection)

    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        connection.execute(FILL, [50])


def test_it_does_not_fail_who_enqueues(connection, listener):
    fill(connection)

    with connection.transaction():
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id")
        assert wake_workers(connection, queue="default", count=1) == []

    assert connection.execute("SELECT id FROM orders").fetchone() == (1,)


def test_when_it_is_free_again_workers_are_woken(connection, listener):
    fill(connection)
    listener.execute("COMMIT")
    listener.execute("UNLISTEN *")
    # The queue is cleaned up as it is used.
    connection.execute("LISTEN ours")
    for _ in range(100):
        if connection.execute(USAGE).fetchone()[0] < 0.5:
            break

    assert wake_workers(connection, queue="default", count=1) == ["ours"]
