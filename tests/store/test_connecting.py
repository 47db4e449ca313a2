"""The processes' own connections."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import psycopg
import pytest
from psycopg import errors

from django_pgjobs.store.connecting import Session, SessionOptions
from django_pgjobs.store.pooling import execute_together

SHORT = timedelta(seconds=0.3)


@pytest.fixture(params=[True, False], ids=["direct", "pooled"])
def session(request, tables):
    """Return a session that soon runs out of patience."""
    session = Session(
        "default", "pgjobs test", SessionOptions(keeps_state=request.param, patience=SHORT)
    )
    yield session
    session.close()


@pytest.fixture
def silent(session, connection):
    """Return a connection whose server process has been stopped."""
    silent = session.connection
    (pid,) = silent.execute("SELECT pg_backend_pid()").fetchone()
    os.kill(pid, signal.SIGSTOP)
    yield silent
    os.kill(pid, signal.SIGCONT)


def test_a_server_that_falls_silent_is_given_up(session, silent):
    with pytest.raises(psycopg.OperationalError, match="has not answered for"):
        silent.execute("SELECT 1")

    assert session.connection.execute("SELECT 1").fetchone() == (1,)


def test_so_it_is_in_a_transaction_of_one_round_trip(session, silent):
    with pytest.raises(psycopg.OperationalError, match="has not answered for"):
        execute_together(silent, [("SELECT 1", None)])

    assert silent.closed


def test_a_slow_answer_is_waited_for(session):
    """Each look is short, and there are many in the time of one statement."""
    query = "SELECT pg_sleep(0.2)"

    assert session.connection.execute(query).fetchone() == ("",)


def test_a_statement_that_takes_too_long_is_ended_by_the_server(tables):
    session = Session(
        "default", "pgjobs test", SessionOptions(statement_timeout=timedelta(seconds=0.1))
    )

    with pytest.raises(errors.QueryCanceled):
        session.connection.execute("SELECT pg_sleep(20)")

    session.close()


def test_a_read_only_server_is_left(session):
    before = session.connection
    before.execute("SELECT 1")

    session.note_error(errors.ReadOnlySqlTransaction("cannot execute UPDATE"))

    assert session.connection is not before


def test_a_transaction_that_was_left_open_is_left_too(session):
    before = session.connection
    psycopg.Cursor(before).execute("BEGIN")

    session.note_error(errors.DeadlockDetected("deadlock detected"))

    assert session.connection is not before


def test_otherwise_the_connection_stays(session):
    before = session.connection

    session.note_error(errors.DeadlockDetected("deadlock detected"))

    assert session.connection is before
