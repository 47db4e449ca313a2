"""Real workers whose connections fail them."""

from __future__ import annotations

import pytest

from tests import factories
from tests.acceptance.jobs import quick
from tests.chaos.proxy import Proxy
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
    worker = through.worker(durations=SELDOM)
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


WAITING = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE %s
        AND wait_event_type = 'Lock' AND datname = current_database())
"""
