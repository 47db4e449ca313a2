"""Start one PostgreSQL for a test run, before pytest-django reads the settings.

``DATABASE_URL`` names a server to use instead. ``PGJOBS_TEST_PG_VERSION`` asks for a version.
The workers of pytest-xdist inherit ``DATABASE_URL``; each has its own database in that server.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack
from urllib.parse import urlsplit

import psycopg
import pytest

from tools.postgres import PostgresServer

# Nothing here must survive a crash of the machine. No snapshot but those of a test holds back
# the horizon that it looks at.
SETTINGS = {"fsync": False, "full_page_writes": False, "autovacuum": False}


# A wrapper goes before all other hooks, so before that of pytest-django.
@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start the server; stop it when pytest ends, however it ends."""
    if not os.environ.get("DATABASE_URL"):
        resources = ExitStack()
        early_config.add_cleanup(resources.close)
        version = os.environ.get("PGJOBS_TEST_PG_VERSION") or None
        server = PostgresServer.ephemeral(version=version, settings=SETTINGS)
        os.environ["DATABASE_URL"] = resources.enter_context(server).url("pgjobs")
        resources.callback(os.environ.pop, "DATABASE_URL")
    return (yield)


def pytest_report_header() -> str:
    """Say which server the tests run against."""
    with psycopg.connect(_maintenance_url(), connect_timeout=10) as connection:
        return f"database: PostgreSQL {connection.info.parameter_status('server_version')}"


def _maintenance_url() -> str:
    """Return the address of a database that every server has: the one to test may be missing."""
    return urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres").geturl()
