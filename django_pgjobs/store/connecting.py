"""Connections of workers and maintenance, outside Django's."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Any, Final

import psycopg
from django.db import connections

from .pooling import StatelessConnection, StatelessCursor, apply_settings

#: Of libpq: notice a peer that is gone within about 20 s instead of hours. What the
#: project sets in OPTIONS wins.
_LIVENESS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}

#: What every protocol statement runs with.
_SETTINGS: Final = {
    # A statement that takes longer is stuck: behind a lock, or on a bad plan.
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    # A claim that is not durable could be made twice with one fence token after a crash.
    "synchronous_commit": "on",
    # Compiling takes longer than any statement here.
    "jit": "off",
    # A worker that starts while the queue is empty prepares its statements on an empty table,
    # where reading all of it is the best plan, and would keep that plan when the queue fills.
    "enable_seqscan": "off",
}


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
        keeps_state: False where a pooler lends the server session to others between two
            transactions.
    """

    def __init__(self, alias: str, purpose: str, *, keeps_state: bool = True) -> None:
        self._alias = alias
        self._purpose = purpose
        self._keeps_state = keeps_state
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew if there is none or it broke.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._alias, self._purpose, keeps_state=self._keeps_state)
        return self._connection

    def close(self) -> None:
        """Close the connection if there is one. It may be opened again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def connect(alias: str, purpose: str, *, keeps_state: bool = True) -> psycopg.Connection[Any]:
    """Return a new autocommit connection with the settings of a database alias.

    Args:
        alias: database alias.
        purpose: shown in ``pg_stat_activity.application_name``.
        keeps_state: as for ``Session``.

    Raises:
        psycopg.OperationalError: the server cannot be reached.
    """
    params = _params(alias, purpose)
    if not keeps_state:
        return _connect_stateless(params, _role(alias))
    # 5 is psycopg's own default; Django turns prepared statements off.
    params["prepare_threshold"] = params.get("prepare_threshold") or 5
    connection: psycopg.Connection[Any] = psycopg.connect(**params, autocommit=True)
    try:
        _prepare(connection, _role(alias))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_stateless(params: dict[str, Any], role: str | None) -> StatelessConnection:
    connection = StatelessConnection.connect(
        **params | {"prepare_threshold": None}, autocommit=True, cursor_factory=StatelessCursor
    )
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.settings = ({"role": role} if role else {}) | _SETTINGS
    return connection


def _params(alias: str, purpose: str) -> dict[str, Any]:
    params: dict[str, Any] = {**_LIVENESS, **connections[alias].get_connection_params()}
    # Made for Django's own cursors: it loads jsonb as text and binds on the client side.
    for name in ("cursor_factory", "context"):
        params.pop(name, None)
    params["application_name"] = purpose[:63]
    return params


def _role(alias: str) -> str | None:
    role: str | None = connections[alias].settings_dict["OPTIONS"].get("assume_role")
    return role


def _prepare(connection: psycopg.Connection[Any], role: str | None) -> None:
    if role:
        connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
    apply_settings(connection, _SETTINGS, is_local=False)
