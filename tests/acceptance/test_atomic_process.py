"""Exactly once for the effects of atomic jobs, wherever the worker or the server dies."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import STEPS, stepping
from tests.chaos.proxy import Proxy
from tests.fix_workers import wait_until
from tests.own_server import insert_job
from tools.machine import LOOPBACK
from tools.postgres import USER

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: The fifth: the server has committed, and the worker has not heard of it.
UNHEARD = "after the commit"


class Steps:
    """Atomic jobs of one worker, each of which has come to another step.

    Attributes:
        jobs: by the step.
        worker: whose answers of one job go astray.
    """

    def __init__(self, processes, proxy, folder):
        self._processes = processes
        self._proxy = proxy
        self._folder = folder
        connection = processes.connection
        connection.execute("CREATE TABLE effects (job_id bigint, claim integer)")
        self.jobs = {step: insert_job(connection, stepping[step]) for step in STEPS}
        self.jobs[UNHEARD] = insert_job(connection, stepping["before the commit"])
        self.worker = processes.worker("--concurrency", "5")
        for job_id in self.jobs.values():
            wait_until((folder / f"{job_id}.waiting").exists, f"job {job_id} comes to its step")
        self._let_commit_unheard()

    def _let_commit_unheard(self):
        unheard = self.jobs[UNHEARD]
        self._proxy.mute(int((self._folder / f"{unheard}.waiting").read_text()))
        (self._folder / str(unheard)).touch()
        self._processes.wait_for_status(unheard, "completed")

    def go_on(self):
        """Let every job go on that still can, and nothing more get lost."""
        for job_id in self.jobs.values():
            (self._folder / str(job_id)).touch()
        self._proxy.unmute()

    def effects(self):
        """Return by which claims each job has had its effect, when all have ended."""
        self._processes.wait_until_empty()
        rows = self._processes.connection.execute("SELECT job_id, claim FROM effects").fetchall()
        return {
            step: [claim for effect_id, claim in rows if effect_id == job_id]
            for step, job_id in self.jobs.items()
        }


@pytest.fixture
def steps(own_server, own_processes, tmp_path):
    with Proxy(own_server.port) as proxy:
        own_processes.environment = {
            "PGJOBS_TEST_GATES": str(tmp_path),
            "DATABASE_URL": f"postgres://{USER}@{LOOPBACK}:{proxy.port}/postgres",
        }
        yield Steps(own_processes, proxy, tmp_path)


def test_a_worker_that_is_killed_at_any_step(steps, own_processes):
    steps.worker.kill()
    steps.go_on()
    own_processes.worker("--maintain")

    assert steps.effects() == {
        "before the handler": [2],
        "in the handler": [2],
        "before the record": [2],
        "before the commit": [2],
        "after the commit": [1],
    }
    own_processes.check_invariants(list(steps.jobs.values()))


def test_a_server_that_crashes_at_any_step(steps, own_processes, own_server, reconnect):
    own_server.restart("immediate")
    reconnect()
    steps.go_on()

    assert steps.effects() == {
        "before the handler": [1],
        "in the handler": [2],
        "before the record": [2],
        "before the commit": [2],
        "after the commit": [1],
    }
    own_processes.check_invariants(list(steps.jobs.values()))
    assert steps.worker.popen.poll() is None


def test_a_server_and_a_worker_that_die_together(steps, own_processes, own_server, reconnect):
    steps.worker.kill()
    own_server.restart("immediate")
    reconnect()
    steps.go_on()
    own_processes.worker("--maintain")

    assert steps.effects() == {
        "before the handler": [2],
        "in the handler": [2],
        "before the record": [2],
        "before the commit": [2],
        "after the commit": [1],
    }
    own_processes.check_invariants(list(steps.jobs.values()))
