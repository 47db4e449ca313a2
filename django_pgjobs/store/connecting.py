"""Connections of workers and maintenance, outside Django's."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

import psycopg
from django.db import connections
from psycopg import errors
from psycopg.pq import TransactionStatus

from ..conf import PgJobsSettings
from .patience import PatientConnection
from .pooling import StatelessConnection, StatelessCursor, settings_statement

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
    "idle_in_transaction_session_timeout": "60s",
    # A claim that is not durable could be made twice with one fence token after a crash.
    "synchronous_commit": "on",
    # Compiling takes longer than any statement here.
    "jit": "off",
    # A worker that starts while the queue is empty prepares its statements on an empty table,
    # where reading all of it is the best plan, and would keep that plan when the queue fills.
    "enable_seqscan": "off",
    # Planning a claim takes ten times as long as running it, and a better plan is not to be had:
    # each of these statements has one good plan, whatever its parameters.
    "plan_cache_mode": "force_generic_plan",
}

#: How long to wait for an answer, in times of what a statement may take.
PATIENCE: Final = 1.5


def new_process_id() -> str:
    """Return an id that no other start of a process has: host, process and a random part."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What the processes' own connections are like.

    Attributes:
        keeps_state: False where a pooler lends the server session to others between two
            transactions.
        statement_timeout: of the server, for each statement.
        patience: how long to wait for the server's answer before the connection is given up.
    """

    keeps_state: bool = True
    statement_timeout: timedelta = timedelta(seconds=30)
    patience: timedelta = timedelta(seconds=45)

    @classmethod
    def from_settings(
        cls, settings: PgJobsSettings, *, longest_patience: timedelta | None = None
    ) -> Self:
        """Return what the project's settings say.

        Args:
            settings: of the project.
            longest_patience: where an answer is needed sooner.
        """
        patience = settings.statement_timeout * PATIENCE
        return cls(
            keeps_state=settings.keeps_state,
            statement_timeout=settings.statement_timeout,
            patience=min(patience, longest_patience or patience),
        )


#: Straight to the server.
DIRECT: Final = SessionOptions()


class Session:
    """A connection that is made when needed and again after it broke.

    For one thread. Autocommit: each statement is a transaction of its own, at READ
    COMMITTED whatever the role's default is.

    Args:
        alias: database alias whose settings to connect with.
        purpose: shown in ``pg_stat_activity.application_name``.
        options: what the connection is like.
    """

    def __init__(self, alias: str, purpose: str, options: SessionOptions = DIRECT) -> None:
        self._alias = alias
        self._purpose = purpose
        self._options = options
        self._connection: PatientConnection | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, made anew if there is none or it broke.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._alias, self._purpose, self._options)
        return self._connection

    def note_error(self, error: psycopg.Error) -> None:
        """Close the connection if a new one may do better after ``error``."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        # After a failover: the address may lead to the new primary.
        is_read_only = isinstance(error, errors.ReadOnlySqlTransaction)
        if is_read_only or connection.info.transaction_status != TransactionStatus.IDLE:
            self.close()

    def close(self) -> None:
        """Close the connection if there is one. It may be opened again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def connect(alias: str, purpose: str, options: SessionOptions = DIRECT) -> PatientConnection:
    """Return a new autocommit connection with the settings of a database alias.

    Args:
        alias: database alias.
        purpose: shown in ``pg_stat_activity.application_name``.
        options: what the connection is like.

    Raises:
        psycopg.OperationalError: the server cannot be reached.
    """
    params = _params(alias, purpose)
    role = connections[alias].settings_dict["OPTIONS"].get("assume_role")
    milliseconds = int(options.statement_timeout / timedelta(milliseconds=1))
    settings = _SETTINGS | {"statement_timeout": str(milliseconds)}
    if options.keeps_state:
        return _connect_stateful(params, settings, role, options.patience.total_seconds())
    connection = StatelessConnection.connect(
        **params | {"prepare_threshold": None}, autocommit=True, cursor_factory=StatelessCursor
    )
    connection.patience = options.patience.total_seconds()
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.settings = ({"role": role} if role else {}) | settings
    return connection


def _connect_stateful(
    params: dict[str, Any], settings: Mapping[str, str], role: str | None, patience: float
) -> PatientConnection:
    # What is executed once is likely to be executed again. Django turns prepared statements off.
    params["prepare_threshold"] = params.get("prepare_threshold") or 1
    connection = PatientConnection.connect(**params, autocommit=True)
    connection.patience = patience
    try:
        if role:
            connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.execute(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
        )
        connection.execute(*settings_statement(settings, is_local=False))
    except BaseException:
        connection.close()
        raise
    return connection


def _params(alias: str, purpose: str) -> dict[str, Any]:
    params: dict[str, Any] = {**_LIVENESS, **connections[alias].get_connection_params()}
    # Made for Django's own cursors: it loads jsonb as text and binds on the client side.
    for name in ("cursor_factory", "context"):
        params.pop(name, None)
    params["application_name"] = purpose[:63]
    return params
