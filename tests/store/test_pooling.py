"""A connection through a pooler in transaction mode: what its statements run with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connections
from psycopg import errors

from django_pgjobs.store.connecting import Session, SessionOptions
from tests import factories
from tests.fix_pgbouncer import session_state
from tests.store.calls import claim_jobs, claim_jobs_under_caps, complete

SHOWN = {
    "transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "statement_timeout": "30s",
    "jit": "off",
    "enable_seqscan": "off",
}
SHOW = "SELECT " + ", ".join(f"current_setting('{name}')" for name in SHOWN)


@pytest.fixture
def serializable(connection):
    """Have every new session of the database begin at another level, and not be durable."""
    alter = f"ALTER DATABASE {connection.info.dbname}"
    connection.execute(f"{alter} SET default_transaction_isolation = 'serializable'")
    connection.execute(f"{alter} SET synchronous_commit = off")
    yield
    connection.execute(f"{alter} RESET ALL")


@pytest.fixture
def pooled(serializable, pooled_alias):
    """Return a connection as workers have it behind a pooler."""
    session = Session(pooled_alias, "pgjobs test", SessionOptions(keeps_state=False))
    yield session.connection
    session.close()


@pytest.fixture
def client(serializable, pooled_url):
    """Return somebody else's connection through the same pool."""
    with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as client:
        yield client


def test_each_statement_brings_what_it_needs(pooled):
    assert pooled.execute(SHOW).fetchone() == tuple(SHOWN.values())


def test_a_transaction_brings_what_it_needs(pooled):
    with pooled.transaction():
        shown = pooled.execute(SHOW).fetchone()

    assert shown == tuple(SHOWN.values())


def test_others_see_nothing_of_it(pooled, client):
    for _ in range(10):
        pooled.execute(SHOW)
    with pooled.transaction():
        pooled.execute(SHOW)

    assert client.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    assert session_state(client) == {}


def test_a_statement_that_fails_leaves_no_transaction_open(pooled, client):
    with pytest.raises(errors.DivisionByZero):
        pooled.execute("SELECT 1 / 0")

    # The only server session is free for another client, and for the same one.
    assert client.execute("SELECT 1").fetchone() == (1,)
    assert pooled.execute("SELECT 2").fetchone() == (2,)


def test_a_failure_that_only_the_commit_shows_is_raised(pooled, connection):
    connection.execute("CREATE TABLE deferred (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    try:
        with pytest.raises(errors.UniqueViolation):
            pooled.execute("INSERT INTO deferred VALUES (1), (1)")
        assert connection.execute("SELECT count(*) FROM deferred").fetchone() == (0,)
        assert pooled.execute("SELECT 2").fetchone() == (2,)
    finally:
        connection.execute("DROP TABLE deferred")


@pytest.mark.parametrize("run", [claim_jobs, claim_jobs_under_caps])
def test_all_is_sent_in_one_message(run, pooled, tmp_path):
    """Whatever is sent behind the last answer borrows the server session until the next statement.

    A pipeline ends with a Flush, which may come too late: everybody else waited until then.
    """
    trace = tmp_path / "trace"
    with trace.open("w") as stream:
        pooled.pgconn.trace(stream.fileno())
        run(pooled)
        pooled.pgconn.untrace()

    assert re.findall(r"\tF\t\d+\t(\w+)", trace.read_text()) == ["Query"]


def test_parameters_of_all_kinds_arrive(pooled):
    values = {
        "text": "it's 100 % \\ ß",
        "number": 2**40,
        "numbers": [1, 2**40],
        "none": [],
        "texts": ["a'b", 'c"d', "{e}", None],
        "fraction": 0.1,
        "lease": timedelta(seconds=1.5),
        "now": datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
        "nothing": None,
    }
    kinds = {
        "text": "text",
        "number": "bigint",
        "numbers": "bigint[]",
        "none": "bigint[]",
        "texts": "text[]",
        "fraction": "float",
        "lease": "interval",
        "now": "timestamptz",
        "nothing": "text",
    }
    casts = ", ".join(f"%({name})s::{kind}" for name, kind in kinds.items())

    assert pooled.execute(f"SELECT {casts}", values).fetchone() == tuple(values.values())


def test_jobs_are_claimed_and_completed(pooled):
    job = factories.pending_job()

    (claimed,) = claim_jobs(pooled).jobs

    assert claimed.id == job.id
    assert complete(pooled, claimed) == [job.id]


def test_capped_jobs_are_claimed_too(pooled):
    factories.TenantConfigFactory(tenant_id=7, max_concurrent_jobs=1)
    jobs = factories.pending_jobs(2, tenant_id=7)

    claims = [claim_jobs_under_caps(pooled).jobs for _ in range(2)]

    assert [[job.id for job in claimed] for claimed in claims] == [[jobs[0].id], []]


def test_a_role_is_taken_for_each_transaction(serializable, connection, pooled_alias, client):
    connection.execute("CREATE ROLE pgjobs_pooled")
    try:
        connections[pooled_alias].settings_dict["OPTIONS"]["assume_role"] = "pgjobs_pooled"
        session = Session(pooled_alias, "pgjobs test", SessionOptions(keeps_state=False))

        assert session.connection.execute("SELECT current_user").fetchone() == ("pgjobs_pooled",)
        session.close()

        assert client.execute("SELECT current_user").fetchone() != ("pgjobs_pooled",)
    finally:
        connection.execute("DROP ROLE pgjobs_pooled")
