"""Connections that leave no state in their server session.

A pooler in transaction mode lends a server session to its client for one transaction, and then
to somebody else. So whatever a statement needs of its session travels with it: each is sent as

::

    BEGIN ISOLATION LEVEL READ COMMITTED; settings of this transaction; statement; COMMIT

in one round trip. Nothing is prepared, nothing is set for longer than the transaction.
See https://www.pgbouncer.org/features.html#sql-feature-map-for-pooling-modes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import psycopg
from psycopg.pq import TransactionStatus

from .patience import PatientConnection

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"


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
            apply_settings(self, self.settings, is_local=True)
            yield transaction


class StatelessCursor(psycopg.Cursor[Any]):
    """Sends what is executed outside a transaction as one, in one round trip."""

    def execute(self, *args: Any, **options: Any) -> Self:
        """As in psycopg."""
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            return super().execute(*args, **options)
        with one_round_trip(self.connection):
            return super().execute(*args, **options)


@contextmanager
def one_round_trip(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Send all that is executed in the block as one transaction, in one round trip.

    Results are there when the block has ended. Unlike ``connection.transaction()`` in a
    pipeline, which waits for each of its own commands.

    Args:
        connection: in autocommit mode and not in a transaction.

    Raises:
        psycopg.Error: a statement failed; nothing has been done.
    """
    try:
        with connection.pipeline():
            _send(connection, _BEGIN)
            if isinstance(connection, StatelessConnection):
                apply_settings(connection, connection.settings, is_local=True)
            yield
            _send(connection, "COMMIT")
    except BaseException:
        if connection.info.transaction_status in {
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        }:
            connection.rollback()
        raise


def apply_settings(
    connection: psycopg.Connection[Any], settings: Mapping[str, str], *, is_local: bool
) -> None:
    """Set parameters of the server, until the transaction ends or for the whole session."""
    calls = ", ".join(f"set_config(%s, %s, {is_local})" for _ in settings)
    _send(
        connection, f"SELECT {calls}", [text for setting in settings.items() for text in setting]
    )


def _send(
    connection: psycopg.Connection[Any], command: str, params: Sequence[str] | None = None
) -> None:
    # A plain cursor, also on a stateless connection.
    psycopg.Cursor(connection).execute(command.encode(), params, prepare=False)
