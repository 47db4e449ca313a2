"""A worker that is started before its server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.fix_workers import PATIENCE, ROOT, wait_until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.process


@pytest.fixture
def server():
    """Return a server of this test's own, with our tables, which has been stopped."""
    with PostgresServer.ephemeral(settings={"fsync": False}) as server:
        environment = environment_of(server)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
            cwd=ROOT,
            env=environment,
            check=True,
        )
        server.stop()
        yield server


def environment_of(server) -> dict[str, str]:
    return {
        **os.environ,
        "DATABASE_URL": server.url("postgres"),
        "DJANGO_SETTINGS_MODULE": "tests.acceptance.settings",
        # Longer than any outage here.
        "PGJOBS_TEST_DURATIONS": json.dumps({"LEASE_DURATION": 120.0}),
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def worker(server, tmp_path):
    """Start a worker whose server is down; return it and its log."""
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "pgjobs_worker"],
            cwd=ROOT,
            env=environment_of(server),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    wait_until(lambda: "cannot be reached, will retry" in log.read_text(), "the worker waits")
    yield process, log
    if process.poll() is None:
        process.kill()
        process.wait(PATIENCE)


def test_it_starts_when_the_server_comes_up(server, worker):
    process, log = worker

    server.start()

    wait_until(lambda: "worker started" in log.read_text(), "the worker starts")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_it_can_be_stopped_while_it_waits(worker):
    process, _ = worker

    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE) == 0


def test_an_outage_costs_little_and_ends_without_a_restart(server, worker):
    """All of its loops fail many times, and say so a few times."""
    process, log = worker
    server.start()
    wait_until(lambda: "worker started" in log.read_text(), "the worker starts")
    before = log.read_text().count("\n")
    began, cpu = monotonic(), seconds_of_cpu(process.pid)

    server.stop("immediate")
    # Each has waited longer and longer, up to some seconds.
    wait_until(lambda: monotonic() > began + OUTAGE, "the outage lasts")
    lines = log.read_text().count("\n") - before
    used = seconds_of_cpu(process.pid) - cpu
    server.start()

    wait_until(lambda: log.read_text().count("it works again") >= 3, "the loops work again")
    # Claim, heartbeat and listen, once and again every ten seconds.
    assert lines <= 6
    assert used < 0.1 * OUTAGE
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


#: Seconds.
OUTAGE = 8.0


def seconds_of_cpu(pid: int) -> float:
    """Return what a process has used of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
