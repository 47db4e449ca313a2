"""Processes on a server of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.fix_workers import Processes, running_processes
from tests.own_server import migrated_server
from tools.postgres import PostgresServer


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Return a server of this test's own, with our tables."""
    with migrated_server() as server:
        yield server


@pytest.fixture
def own_processes(own_server: PostgresServer, tmp_path: Path) -> Iterator[Processes]:
    """Start processes against the test's own server; none of them outlives the test."""
    with (
        psycopg.connect(own_server.url(), autocommit=True) as connection,
        running_processes(tmp_path, own_server.url(), connection) as running,
    ):
        yield running


@pytest.fixture
def reconnect(
    own_server: PostgresServer, own_processes: Processes
) -> Iterator[Callable[[], None]]:
    """Return a function that replaces the test's connection after a restart."""
    with ExitStack() as stack:

        def reconnect() -> None:
            own_processes.connection.close()
            own_processes.connection = stack.enter_context(
                psycopg.connect(own_server.url(), autocommit=True)
            )

        yield reconnect
