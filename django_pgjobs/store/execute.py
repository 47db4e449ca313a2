"""Execute a statement on a Django connection or on a raw psycopg one.

Producers and the admin pass Django's connection, so that a statement joins the
transaction that is open there; workers and maintenance pass their own psycopg
connections. Nothing else knows the difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NewType, Protocol, TypeVar

from ..sql import read_all, statement
from .numbering import NumberedCursor
from .patience import PatientConnection

JobId = NewType("JobId", int)
FenceToken = NewType("FenceToken", int)
WorkerId = NewType("WorkerId", str)

Row = TypeVar("Row")


def read_statements() -> None:
    """Read every statement, for a process that lives long. See ``sql.read_all``."""
    read_all()


class Executor(Protocol):
    """A Django connection or a psycopg connection."""

    def cursor(self) -> Any: ...


def run(connection: Executor, name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Execute the statement ``name`` and return its rows as they are."""
    with _cursor(connection) as cursor:
        cursor.execute(statement(name), params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def fetch_rows(
    connection: Executor, name: str, params: Mapping[str, Any], row_type: type[Row]
) -> list[Row]:
    """Execute the statement ``name`` and return its rows as ``row_type``.

    Columns are matched with the fields of ``row_type`` by name, so a reordered
    column cannot end up in the wrong field.

    Raises:
        TypeError: the columns are not the fields of ``row_type``.
    """
    with _cursor(connection) as cursor:
        cursor.execute(statement(name), params)
        names = tuple(column[0] for column in cursor.description)
        if names == _fields(row_type):
            return [row_type(*row) for row in cursor.fetchall()]
        return [row_type(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def fetch_values(connection: Executor, name: str, params: Mapping[str, Any]) -> list[Any]:
    """Execute the statement ``name`` and return its only column."""
    return [value for (value,) in run(connection, name, params)]


def execute(connection: Executor, name: str, params: Mapping[str, Any]) -> None:
    """Execute the statement ``name``, which returns nothing of interest."""
    with _cursor(connection) as cursor:
        cursor.execute(statement(name), params)


def _cursor(connection: Executor) -> Any:
    if type(connection) is PatientConnection:
        return NumberedCursor(connection)
    return connection.cursor()


def _fields(row_type: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(row_type))
