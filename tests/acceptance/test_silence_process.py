"""Processes that are started while the network passes nothing and closes nothing."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from django_pgjobs.observability.health import read_health
from tests.acceptance.jobs import quick
from tests.chaos.proxy import Proxy
from tests.fix_workers import running_processes, wait_until
from tools.machine import LOOPBACK

pytestmark = pytest.mark.process


@pytest.fixture
def proxy(connection):
    """Return a proxy through which nothing passes."""
    with Proxy(connection.info.port) as proxy:
        proxy.darken()
        yield proxy


@pytest.fixture
def through(proxy, connection, tmp_path):
    """Start processes that reach the database through the proxy only."""
    info = connection.info
    url = f"postgres://{info.user}@{LOOPBACK}:{proxy.port}/{info.dbname}"
    with running_processes(tmp_path, url, connection) as processes:
        yield processes


@pytest.mark.parametrize(
    "command",
    [["pgjobs_worker"], ["pgjobs_worker", "--processes", "1"], ["pgjobs_maintain"]],
    ids=" ".join,
)
def test_they_can_be_stopped(through, proxy, command):
    process = through.start(*command)
    wait_until(lambda: proxy.connections, "it has connected")

    process.send(signal.SIGTERM)

    assert process.wait() == 0


def test_they_start_when_the_network_is_back(through, proxy):
    process = through.start("pgjobs_worker")
    wait_until(lambda: proxy.connections, "it has connected")

    proxy.lighten()

    wait_until(lambda: "worker started" in process.output(), "the worker starts")


def test_the_health_answer_tells_of_what_is_cut_off_and_of_its_return(through, proxy, connection):
    """Within a lease, here 3 s: for as long a worker may say nothing."""

    def problems():
        return " ".join(read_health(connection, lease=timedelta(seconds=3)).problems)

    proxy.lighten()
    maintenance, worker = through.maintenance(), through.worker()
    wait_until(lambda: not problems(), "all is well")

    proxy.darken()
    job = quick.enqueue()
    wait_until(lambda: "no worker runs" in problems(), "somebody notices")
    wait_until(lambda: "No maintenance runs" in problems(), "somebody notices")

    proxy.lighten()
    # What was cut off for so long ends, and its manager starts it anew.
    for process in (maintenance, worker):
        process.kill()
    through.maintenance()
    through.worker()
    wait_until(lambda: not problems(), "all is well again")
    through.wait_for_status(job.id, "completed")


def test_a_worker_can_be_stopped_when_the_network_falls_silent(through, proxy):
    proxy.lighten()
    # No statement is given up before the test is.
    worker = through.worker(durations={"STATEMENT_TIMEOUT": 3600, "SHUTDOWN_TIMEOUT": 1})

    proxy.darken()
    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
