"""A worker that is started before its server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

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
