"""The private PgBouncer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.fix_workers import ROOT, wait_until
from tools.machine import accepts_connections
from tools.pgbouncer import PgBouncer, PgBouncerError

BACKEND = "SELECT pg_backend_pid()"

HOLD = """
import sys, time
from tools.pgbouncer import PgBouncer

with PgBouncer(sys.argv[1]).running() as pooler:
    print(pooler.port, flush=True)
    time.sleep(60)
"""


def test_two_clients_share_a_server_connection_between_transactions(pooled_url):
    with psycopg.connect(pooled_url, autocommit=True) as one:
        first = one.execute(BACKEND).fetchone()
        with psycopg.connect(pooled_url, autocommit=True) as other:
            assert other.execute(BACKEND).fetchone() == first


def test_it_does_not_run_as_root(pooled_url, connection):
    client = "SELECT client_port FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(pooled_url, autocommit=True) as pooled:
        (pid,) = pooled.execute(BACKEND).fetchone()
        (port,) = connection.execute(client, [pid]).fetchone()

        # Of the sockets of this machine, the pooler's end of that connection.
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        users = {int(row[7]) for row in rows if int(row[1].split(":")[1], 16) == port}

    assert 0 not in users
    assert len(users) == 1


def test_it_goes_when_its_user_is_killed(pgbouncer, connection):
    url = f"postgres://postgres@127.0.0.1:{connection.info.port}/postgres"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    port = int(process.stdout.readline())

    process.send_signal(signal.SIGKILL)
    process.communicate()

    wait_until(lambda: not accepts_connections(port), "the pooler goes")


def test_one_that_does_not_start_says_why(pgbouncer):
    pooler = PgBouncer("postgres://postgres@127.0.0.1:5432/x", settings={"pool_mode": "none"})

    with pytest.raises(PgBouncerError, match=r"did not start:\n.*pool_mode"), pooler.running():
        pass
