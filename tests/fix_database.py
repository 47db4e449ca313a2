"""Fixtures for tests that need several connections, and so rows that are committed.

``tables`` adds to pytest-django's ``transactional_db`` what that knows nothing of: the history
tables, which are unmanaged, and the sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event
from time import monotonic
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

Connect = Callable[..., "psycopg.Connection[Any]"]

#: No test waits longer for another connection.
TIMEOUT = 10.0

_TABLES = (
    "jobs_active",
    "kept_epochs",
    "claim_floors",
    "jobs_completed",
    "job_attempts",
    "breakers",
    "outcome_counts",
    "queue_config",
    "tenant_config",
    "cron_schedules",
    "cron_runs",
    "job_workers",
    "maintenance_leader",
)

#: Sets back what is not rolled back with a test's transaction.
FIRST_EPOCHS = "SELECT " + ", ".join(
    f"setval('{sequence}', 1)"
    for sequence in (
        "jobs_epoch",
        "jobs_epoch_low",
        "jobs_running_epoch",
        "jobs_running_epoch_low",
        "jobs_floors",
        "jobs_waiting_floor",
    )
)


@pytest.fixture(scope="session")
def conninfo(django_db_setup: None) -> str:
    """Return how psycopg reaches the test database."""
    return conninfo_of("default")


@pytest.fixture
def tables(transactional_db: None, conninfo: str) -> Iterator[None]:
    """Let a test commit: the tables are empty before it and after it."""
    empty_tables(conninfo)
    yield
    empty_tables(conninfo)


@pytest.fixture
def connect(tables: None, conninfo: str) -> Iterator[Connect]:
    """Return a function that opens a raw autocommit connection like a worker's."""
    with ExitStack() as opened:

        def connect(**options: Any) -> psycopg.Connection[Any]:
            options = {"autocommit": True, **options}
            return opened.enter_context(psycopg.connect(conninfo, **options))

        yield connect


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection[Any]:
    """Return one raw autocommit connection."""
    return connect()


@pytest.fixture
def role(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """Return a role that may do all that a worker does. Limits do not hold for superusers."""
    name = f"worker_of_{connection.info.dbname}"
    connection.execute(f"CREATE ROLE {name} LOGIN")
    for kind in ("TABLES", "SEQUENCES"):
        connection.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {name}")
    yield name
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = %s", [name]
    )
    connection.execute(f"DROP OWNED BY {name}")
    connection.execute(f"DROP ROLE {name}")


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Return a function that runs another in a thread, and hands out its future."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield pool.submit


def conninfo_of(alias: str) -> str:
    """Return how psycopg reaches the database of a Django alias."""
    names = ("host", "port", "user", "password", "dbname", "options", "sslmode")
    params = connections[alias].get_connection_params()
    wanted = {name: params[name] for name in names if params.get(name)}
    return psycopg.conninfo.make_conninfo(**wanted)


def url_of(connection: psycopg.Connection[Any]) -> str:
    """Return the address of a connection's database."""
    info = connection.info
    return f"postgres://{info.user}@{info.host}:{info.port}/{info.dbname}"


def empty_tables(conninfo: str) -> None:
    """Delete all rows, drop the partitions that a test made, and set the epochs back."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '10s'")
        for name in _extra_partitions(connection):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(name)))
        empty_rows(connection)


def empty_rows(connection: psycopg.Connection[Any]) -> None:
    """Delete all rows, and set the epochs back."""
    connection.execute("; ".join(f"DELETE FROM {table}" for table in _TABLES))
    connection.execute(FIRST_EPOCHS)


def _extra_partitions(connection: psycopg.Connection[Any]) -> list[str]:
    query = """
        SELECT child.oid::regclass::text FROM pg_class AS child
        WHERE child.relkind = 'r' AND child.relname ~ '^(jobs_completed|job_attempts)_\\d{8}$'
    """
    return [name for (name,) in connection.execute(query)]


@contextmanager
def database(conninfo: str, name: str, *, empty: bool = False) -> Iterator[str]:
    """Make a database with our tables, or nothing; yield how to reach it."""
    from django_pgjobs.migrations._sql import _FOLDER

    with psycopg.connect(conninfo, autocommit=True) as connection:
        quoted = sql.Identifier(f"{connection.info.dbname}_{name}")
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(quoted)
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
        address = psycopg.conninfo.make_conninfo(
            conninfo, dbname=f"{connection.info.dbname}_{name}"
        )
        try:
            with psycopg.connect(address, autocommit=True) as made:
                if not empty:
                    made.execute((_FOLDER / "0001_initial.up.sql").read_text(encoding="utf-8"))
            yield address
        finally:
            connection.execute(drop)


def wait_until_blocked(
    observer: psycopg.Connection[Any], waiting: psycopg.Connection[Any]
) -> None:
    """Return when ``waiting`` waits for a lock of somebody else.

    Raises:
        TimeoutError: it does not.
    """
    tick, deadline = Event(), monotonic() + TIMEOUT
    query = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    while not observer.execute(query, [waiting.info.backend_pid]).fetchone()[0]:
        if monotonic() > deadline:
            raise TimeoutError("The connection does not wait for any lock.")
        tick.wait(0.002)
