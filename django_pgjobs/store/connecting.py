"""Connections of workers and maintenance, outside Django's."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Any, Final

import psycopg
from django.db import connections

#: Of libpq: notice a peer that is gone within about 20 s instead of hours. What the
#: project sets in OPTIONS wins.
_LIVENESS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}

#: A protocol statement that takes longer is stuck: behind a lock, or on a bad plan.
_STATEMENT_TIMEOUT: Final = "30s"


def new_process_id() -> str:
    """Return an id that no other start of a process has: host, process and a random part."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"


class Session:
    """A connection that is made when needed and again after it broke.

    For one thread. Autocommit: each statement is a transaction of its own, at READ
    COMMITTED whatever the role's default is.

    Args:
        alias: database alias whose settings to connect with.
        purpose: shown in ``pg_stat_activity.application_name``.
    """

    def __init__(self, alias: str, purpose: str) -> None:
        self._alias = alias
        self._purpose = purpose
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew if there is none or it broke.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._alias, self._purpose)
        return self._connection

    def close(self) -> None:
        """Close the connection if there is one. It may be opened again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def connect(alias: str, purpose: str) -> psycopg.Connection[Any]:
    """Return a new autocommit connection with the settings of a database alias.

    Raises:
        psycopg.OperationalError: the server cannot be reached.
    """
    django_connection = connections[alias]
    params = {**_LIVENESS, **django_connection.get_connection_params()}
    # Made for Django's own cursors: it loads jsonb as text and binds on the client side.
    for name in ("cursor_factory", "context"):
        params.pop(name, None)
    # 5 is psycopg's own default; Django turns prepared statements off.
    params["prepare_threshold"] = params.get("prepare_threshold") or 5
    params["application_name"] = purpose[:63]
    connection: psycopg.Connection[Any] = psycopg.connect(**params, autocommit=True)
    try:
        _prepare(connection, django_connection.settings_dict["OPTIONS"].get("assume_role"))
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: psycopg.Connection[Any], role: str | None) -> None:
    if role:
        connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
    # A worker that starts while the queue is empty prepares its statements on an empty table,
    # where reading all of it is the best plan, and would keep that plan when the queue
    # fills. Compiling takes longer than any statement here.
    connection.execute("SET enable_seqscan = off")
    connection.execute("SET jit = off")
    # A claim that is not durable could be made twice with one fence token after a crash.
    connection.execute("SET synchronous_commit = on")
    connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT}'")
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
