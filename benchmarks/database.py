"""A server for one run, and databases on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import django
import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from django_pgjobs.maintenance.partitions import Partitioner
from django_pgjobs.store.connecting import connect
from tools.postgres import PostgresServer

#: What a small production server would have. Durable: fsync and synchronous_commit are on.
SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
}


@contextmanager
def server() -> Iterator[str]:
    """Yield the address of the server: that in DATABASE_URL, or one of our own."""
    given = os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with PostgresServer.ephemeral(settings=SETTINGS) as own:
        yield own.url()


@contextmanager
def database(server_url: str, name: str) -> Iterator[str]:
    """Yield the address of a new database, which is dropped in the end.

    Args:
        server_url: of a database on the same server.
        name: of what is measured.
    """
    full_name = f"pgjobs_bench_{name}"
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(full_name))
    create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(full_name))
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(create)
        try:
            yield urlsplit(server_url)._replace(path=f"/{full_name}").geturl()
        finally:
            connection.execute(drop)


@contextmanager
def our_database(server_url: str, name: str) -> Iterator[str]:
    """Yield the address of a new database with our tables, Django's default in this process.

    Processes started meanwhile find it in DATABASE_URL.
    """
    before = os.environ.get("DATABASE_URL")
    with database(server_url, name) as url:
        os.environ["DATABASE_URL"] = url
        try:
            _use(url)
            yield url
        finally:
            connections.close_all()
            if before is None:
                del os.environ["DATABASE_URL"]
            else:
                os.environ["DATABASE_URL"] = before


def _use(url: str) -> None:
    django.setup()
    connections.close_all()
    # Settings are read once; the name of the database changes with each benchmark.
    connections["default"].settings_dict["NAME"] = urlsplit(url).path.lstrip("/")
    call_command("migrate", verbosity=0)
    _make_partitions()


def _make_partitions() -> None:
    with connect("default", "benchmark") as connection:
        Partitioner(days_ahead=1, retention=None).run_once(connection, batch_size=10)
