"""The daily partitions of the history tables.

The only SQL that is composed in Python: a partition's name and bounds cannot be
parameters. Names are made from a date and quoted by psycopg.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import psycopg
from psycopg import sql

from .execute import fetch_rows, fetch_values

#: The partitioned tables and the column that decides the partition.
PARTITIONED: Final = {"jobs_completed": "completed_at", "job_attempts": "finished_at"}


@dataclass(frozen=True, slots=True)
class Partition:
    """An attached partition, by the catalogue's bounds.

    Attributes:
        name: qualified and quoted.
        starts_at: first instant, or None for unbounded.
        ends_at: first instant after it, or None for unbounded.
    """

    name: str
    starts_at: datetime | None
    ends_at: datetime | None


def list_partitions(connection: psycopg.Connection[Any], *, table: str) -> list[Partition]:
    """Return the partitions of ``table`` but DEFAULT. See sql/maintain/list_partitions.sql."""
    return fetch_rows(connection, "maintain/list_partitions", {"table_name": table}, Partition)


def find_schema(connection: psycopg.Connection[Any], *, table: str) -> str:
    """Return where ``table`` is: its partitions belong beside it, whatever the search path.

    See sql/maintain/find_schema.sql.
    """
    (schema,) = fetch_values(connection, "maintain/find_schema", {"table_name": table})
    return str(schema)


def create_partition(
    connection: psycopg.Connection[Any], *, table: str, day: date, lock_timeout: timedelta
) -> str:
    """Make and attach the partition of one UTC day of ``table``; return its name.

    A table like the parent is filled with the rows of that day that the DEFAULT
    partition holds, and attached: unlike ``CREATE TABLE … PARTITION OF`` that takes no
    ACCESS EXCLUSIVE lock on the parent, so completions go on. One partition a
    transaction, so that no two tables are ever locked at once.

    Raises:
        psycopg.errors.DuplicateTable: a table of that name exists and is not attached,
            for instance a detached partition.
        psycopg.errors.LockNotAvailable: a reader was in the way for ``lock_timeout``.
    """
    name = f"{table}_{day:%Y%m%d}"
    starts_at = datetime.combine(day, time(), UTC)
    schema = find_schema(connection, table=table)
    names = {
        "parent": sql.Identifier(schema, table),
        "default": sql.Identifier(schema, f"{table}_default"),
        "partition": sql.Identifier(schema, name),
        "check": sql.Identifier(f"{name}_bounds"),
        "column": sql.Identifier(PARTITIONED[table]),
        "starts_at": sql.Literal(starts_at.isoformat()),
        "ends_at": sql.Literal((starts_at + timedelta(days=1)).isoformat()),
    }
    with connection.transaction(), connection.cursor() as cursor:
        _limit_lock_wait(cursor, lock_timeout)
        for command in _CREATE:
            cursor.execute(sql.SQL(command).format(**names))
    return name


def drop_partition(
    connection: psycopg.Connection[Any], partition: Partition, *, lock_timeout: timedelta
) -> None:
    """Drop a partition with its rows.

    Raises:
        psycopg.errors.LockNotAvailable: a reader was in the way for ``lock_timeout``;
            completions have waited no longer than that.
    """
    with connection.transaction(), connection.cursor() as cursor:
        _limit_lock_wait(cursor, lock_timeout)
        # Quoted by the server, see list_partitions.
        cursor.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(partition.name)))


# LIKE copies the CHECK constraints; the primary key and the indexes come with ATTACH. The
# CHECK on the bounds saves ATTACH a scan under its lock.
_CREATE: Final = (
    "CREATE TABLE {partition} (LIKE {parent} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
    "ALTER TABLE {partition} ADD CONSTRAINT {check} CHECK "
    "({column} >= {starts_at}::timestamptz AND {column} < {ends_at}::timestamptz)",
    "LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE",
    "WITH moved AS (DELETE FROM {default} WHERE {column} >= {starts_at}::timestamptz "
    "AND {column} < {ends_at}::timestamptz RETURNING *) INSERT INTO {partition} "
    "SELECT * FROM moved",
    "ALTER TABLE {parent} ATTACH PARTITION {partition} "
    "FOR VALUES FROM ({starts_at}) TO ({ends_at})",
    "ALTER TABLE {partition} DROP CONSTRAINT {check}",
)


def _limit_lock_wait(cursor: psycopg.Cursor[Any], lock_timeout: timedelta) -> None:
    milliseconds = int(lock_timeout / timedelta(milliseconds=1))
    cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(milliseconds)])
