"""A server for tests that stop it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from django_pgjobs.producer.jobs import Job
from tests.fix_workers import ROOT
from tools.postgres import PostgresServer, Setting


@contextmanager
def migrated_server(**settings: Setting) -> Iterator[PostgresServer]:
    """Run a server whose database ``postgres`` has our tables.

    What it has written survives its own crash, but not one of the machine.
    """
    settings = {"fsync": False, "full_page_writes": False, **settings}
    with PostgresServer.ephemeral(settings=settings) as server:
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": server.url(),
                "DJANGO_SETTINGS_MODULE": "tests.settings",
            },
            check=True,
        )
        yield server


def insert_job(connection: psycopg.Connection[Any], job: Job[Any, Any], **arguments: str) -> int:
    """Write a pending job where Django does not reach, and return its id."""
    row = connection.execute(
        "INSERT INTO jobs_active "
        "(epoch, created_at, scheduled_at, status, job_name, max_attempts, payload) "
        "SELECT last_value, now(), now(), 'pending', %s, %s, %s FROM jobs_epoch RETURNING id",
        [job.name, job.definition.max_attempts or 3, json.dumps(arguments)],
    ).fetchone()
    assert row is not None
    return int(row[0])
