"""Where the shop keeps its data: the server of ``DATABASE_URL``, or a private one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tools.postgres import PostgresServer


@contextmanager
def server() -> Iterator[str]:
    """Yield the address of a database: that of ``DATABASE_URL``, or of a private server."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with PostgresServer.ephemeral() as private:
        yield private.url()


@contextmanager
def scratch_database(url: str) -> Iterator[str]:
    """Make a database on the server of ``url``, yield its address, and drop it at the end."""
    name = f"shop_{os.getpid()}_{secrets.token_hex(4)}"
    # A database that every server has; the one in the address may be missing.
    maintenance = urlsplit(url)._replace(path="/postgres").geturl()
    _execute(maintenance, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        _execute(maintenance, drop)


def _execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(statement)
