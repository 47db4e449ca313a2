"""Fixtures for tests that reach their database through PgBouncer in transaction mode."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest
from django.db import connections

from tests.fix_database import url_of
from tools.pgbouncer import PgBouncer, PgBouncerError, find_pgbouncer

Pooler = Callable[..., AbstractContextManager[PgBouncer]]


@pytest.fixture(scope="session")
def pgbouncer() -> None:
    """Fetch PgBouncer. Only where it cannot be had, and not in CI, the test is skipped."""
    try:
        find_pgbouncer()
    except PgBouncerError as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture
def pooler(pgbouncer: None, connection: psycopg.Connection) -> Pooler:
    """Return a function that runs a pooler in front of the test database.

    Its argument is the number of server connections that all clients share.
    """

    @contextmanager
    def pooler(size: int) -> Iterator[PgBouncer]:
        settings = {"default_pool_size": size}
        with PgBouncer(url_of(connection), settings=settings).running() as running:
            yield running

    return pooler


@pytest.fixture
def pooled_url(pooler: Pooler, connection: psycopg.Connection) -> Iterator[str]:
    """Return the address of the test database through a pool of one server connection.

    Whatever anybody leaves there is seen by everybody, and nobody can keep it.
    """
    with pooler(1) as running:
        yield running.url(connection.info.dbname)


@pytest.fixture
def pooled_alias(pooled_url: str) -> Iterator[str]:
    """Return a database alias that goes through that pool."""
    address = psycopg.conninfo.conninfo_to_dict(pooled_url)
    configured = copy.deepcopy(connections["default"].settings_dict)
    connections.settings["pooled"] = configured | {
        "HOST": address["host"],
        "PORT": address["port"],
    }
    yield "pooled"
    # First of all: what ends later may go through all aliases, and make it again.
    del connections.settings["pooled"]
    del connections["pooled"]


def session_state(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Return what is left in the server session that a connection is lent."""
    queries = {
        "prepared": "SELECT name FROM pg_prepared_statements",
        "listening": "SELECT pg_listening_channels()",
        # The pooler itself sets the name of each client.
        "set": "SELECT name FROM pg_settings WHERE source = 'session' "
        "AND name <> 'application_name'",
        "locks": "SELECT objid::text FROM pg_locks WHERE locktype = 'advisory' "
        "AND pid = pg_backend_pid()",
        "temporary": "SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()",
        "cursors": "SELECT name FROM pg_cursors WHERE is_holdable",
    }
    state = {
        kind: [name for (name,) in connection.execute(query)] for kind, query in queries.items()
    }
    return {kind: names for kind, names in state.items() if names}
