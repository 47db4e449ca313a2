"""Real workers whose connections fail them."""

from __future__ import annotations

import os
import signal

import pytest

from tests import factories
from tests.acceptance.jobs import gated, quick
from tests.chaos.proxy import Proxy
from tests.fix_database import url_of
from tests.fix_workers import running_processes, wait_until

pytestmark = pytest.mark.process

#: Leases do not run out in the time of a test, and no heartbeat comes to the rescue.
SELDOM = {"LEASE_DURATION": 900.0, "HEARTBEAT_INTERVAL": 300.0}


@pytest.fixture
def proxy(connection):
    with Proxy(connection.info.port) as proxy:
        yield proxy


@pytest.fixture
def through(proxy, connection, tmp_path):
    """Start processes that reach the database through the proxy."""
    info = connection.info
    url = f"postgres://{info.user}@{info.host}:{proxy.port}/{info.dbname}"
    with running_processes(tmp_path, url, connection) as processes:
        yield processes


def test_a_job_whose_claim_was_never_answered_runs_soon(through, proxy, connect):
    factories.PausedQueueFactory(queue_name="default")
    job = quick.enqueue()
    # Of one queue: the claim that waits is the one that finds the job.
    worker = through.worker("--queues", "default", durations=SELDOM)
    # By then its statements are prepared. To prepare one is a message of its own, and waits too.
    through.wait_for_sleepers(1)
    holder = connect()
    holder.execute("BEGIN")
    holder.execute("LOCK TABLE queue_config IN ACCESS EXCLUSIVE MODE")
    holder.execute("DELETE FROM queue_config")
    wait_until(lambda: through.value(WAITING, "pgjobs claim %"), "the claim waits")

    proxy.mute()
    holder.execute("COMMIT")
    through.wait_for_status(job.id, "running")
    proxy.unmute()

    through.wait_for_status(job.id, "completed")
    assert "jobs given back, the answer to their claim was lost: count=1" in worker.output()
    assert [(noted.claim, noted.name) for noted in through.events()] == [(2, "start"), (2, "end")]
    assert through.value("SELECT attempt FROM jobs_completed WHERE id = %s", job.id) == 1
    through.check_invariants([job.id])


def test_a_worker_whose_connections_fall_silent_goes_on(processes):
    """As in a network that passes nothing, and closes nothing."""
    worker = processes.worker(durations=SELDOM | {"STATEMENT_TIMEOUT": 1.0})
    processes.wait_for_status(quick.enqueue().id, "completed")
    stopped = [pid for (pid,) in processes.connection.execute(OURS, ["pgjobs (claim|finish)"])]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        processes.wait_for_status(quick.enqueue().id, "completed")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    assert len(stopped) == 2
    assert "the server has not answered for" in worker.output()


def test_a_worker_outlives_a_standby_that_is_read_only_for_a_while(processes, tmp_path):
    name = processes.connection.info.dbname
    gate = tmp_path / "gate"
    held = gated.enqueue(gate=str(gate))
    worker = processes.worker("--maintain", durations=SELDOM)
    processes.wait_for_start(held.id)
    processes.connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        processes.connection.execute(TERMINATE)
        gate.touch()
        wait_until(lambda: "Writing outcomes failed" in worker.output(), "it is refused")
    finally:
        processes.connection.execute(f"ALTER DATABASE {name} RESET ALL")

    # Its connections are still read-only. It must leave them.
    processes.wait_for_status(held.id, "completed")
    processes.wait_for_status(quick.enqueue().id, "completed")
    assert "read-only transaction (25006)" in worker.output()
    assert "Traceback" not in worker.output()
    assert len(processes.events("start")) == 2
    processes.check_invariants([event.job_id for event in processes.events("end")])


def test_a_worker_waits_for_connections_when_there_are_none_left(role, processes, tmp_path):
    processes.connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 2")
    address = url_of(processes.connection).replace("//postgres@", f"//{role}@")
    with running_processes(tmp_path, address, processes.connection) as limited:
        worker = limited.worker()
        wait_until(lambda: f'too many connections for role "{role}"' in worker.output(), "limit")

        processes.connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")

        limited.wait_for_status(quick.enqueue().id, "completed")


OURS = """
    SELECT pid FROM pg_stat_activity
    WHERE application_name ~ %s AND datname = current_database()
"""

TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name LIKE 'pgjobs %' AND datname = current_database()
"""

WAITING = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE %s
        AND wait_event_type = 'Lock' AND datname = current_database())
"""
