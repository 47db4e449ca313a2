"""Connections that leave no state in their server session.

A pooler in transaction mode lends a server session to its client for one transaction, and then
to somebody else. So whatever a statement needs of its session travels with it: each is sent as

::

    BEGIN ISOLATION LEVEL READ COMMITTED; settings of this transaction; statement; COMMIT

in one message of the simple protocol. Nothing is prepared, nothing is set for longer than the
transaction. See https://www.pgbouncer.org/features.html#sql-feature-map-for-pooling-modes

A pipeline would be one round trip too, but it ends with a Flush behind its Sync. If that reaches
PgBouncer when the server session has already gone back, the client is lent one for it, and keeps
it until its next statement: a Flush has no answer that would end the loan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self, cast

import psycopg
from psycopg.pq import TransactionStatus

from .numbering import NumberedCursor
from .patience import PatientConnection

Params = Mapping[str, Any] | Sequence[Any] | None

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"

#: Results before the first of a statement: those of BEGIN and of the settings.
_FIRST: Final = 2


class StatelessCursor(psycopg.ClientCursor[Any]):
    """Sends what is executed outside a transaction as one, in one message."""

    def execute(self, query: Any, params: Params = None, **options: Any) -> Self:
        """As in psycopg."""
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            return super().execute(query, params, **options)
        return self.execute_together([(query, params)]).set_result(_FIRST)

    def execute_together(self, statements: Sequence[tuple[Any, Params]]) -> Self:
        """Execute statements in one transaction; the result of the first is number 2."""
        connection = cast("StatelessConnection", self.connection)
        settings = settings_statement(connection.settings, is_local=True)
        bound = [self.mogrify(*statement) for statement in (settings, *statements)]
        with _no_transaction_left(self.connection):
            # A statement may end with a comment.
            return super().execute("\n;".join([_BEGIN, *bound, "COMMIT"]).encode())


class StatelessConnection(PatientConnection):
    """A connection on which each statement is a transaction of its own, settings included.

    Attributes:
        settings: of each transaction.
    """

    settings: dict[str, str]

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """As in psycopg, with the settings."""
        with super().transaction(savepoint_name, force_rollback) as transaction:
            self.execute(*settings_statement(self.settings, is_local=True))
            yield transaction


def execute_together(
    connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Params]]
) -> list[list[tuple[Any, ...]]]:
    """Execute statements in one transaction and one round trip; return the rows of each.

    Each has its own snapshot, taken when those before it have ended.

    Args:
        connection: in autocommit mode and not in a transaction.
        statements: SQL and its parameters.

    Raises:
        psycopg.Error: one failed; nothing has been done.
    """
    cursor = connection.cursor()
    if isinstance(cursor, StatelessCursor):
        cursor.execute_together(statements)
        indexes = range(_FIRST, _FIRST + len(statements))
        return [cursor.set_result(index).fetchall() for index in indexes]
    # Unlike connection.transaction() in a pipeline, which waits for each of its own commands.
    commands: list[tuple[str, Params]] = [(_BEGIN, None), *statements, ("COMMIT", None)]
    with _no_transaction_left(connection), connection.pipeline():
        cursors = [NumberedCursor(connection).execute(*command) for command in commands]
    return [cursor.fetchall() for cursor in cursors[1:-1]]


def settings_statement(settings: Mapping[str, str], *, is_local: bool) -> tuple[bytes, Params]:
    """Return what sets parameters of the server, until the transaction ends or for the session."""
    calls = ", ".join(f"set_config(%s, %s, {is_local})" for _ in settings)
    return f"SELECT {calls}".encode(), [text for setting in settings.items() for text in setting]


@contextmanager
def _no_transaction_left(connection: psycopg.Connection[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if connection.info.transaction_status in {
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        }:
            connection.rollback()
        raise
