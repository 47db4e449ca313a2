"""Several workers under a supervisor, with real signals."""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.jobs import gated, quick
from tests.acceptance.test_pool_process import is_gone
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def supervisor(processes):
    """Return a supervisor of two workers that both work."""
    process = processes.start("pgjobs_worker", "--processes", "2", "--maintain")
    wait_until(lambda: len(workers_of(processes)) == 2, "two workers are on the list")
    return process


def workers_of(processes):
    """Return the process ids on the list of workers."""
    rows = processes.connection.execute("SELECT pid FROM job_workers").fetchall()
    return {pid for (pid,) in rows}


def test_sigterm_drains_all_workers(processes, supervisor, tmp_path):
    gate = tmp_path / "gate"
    jobs = [gated.enqueue(gate=str(gate)).id for _ in range(4)]
    for job_id in jobs:
        processes.wait_for_start(job_id)
    workers = workers_of(processes)

    supervisor.send(signal.SIGTERM)
    # As a manager does that sends the signal to every process: no second signal to anybody.
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: supervisor.output().count("worker stopping") == 2, "both drain")
    gate.touch()

    assert supervisor.wait() == 0
    assert {processes.status_of(job_id) for job_id in jobs} == {"completed"}
    assert all(is_gone(pid) for pid in workers)
    processes.check_invariants(jobs)


def test_a_worker_that_is_killed_is_replaced_and_its_job_runs_again(
    processes, supervisor, tmp_path
):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    pid = processes.wait_for_start(job.id)
    before = workers_of(processes)

    os.kill(pid, signal.SIGKILL)
    gate.touch()

    processes.wait_for_status(job.id, "completed")
    wait_until(lambda: len(workers_of(processes) - before) == 1, "a new worker is on the list")
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    processes.check_invariants([job.id])


def test_when_the_supervisor_is_killed_its_workers_drain(processes, supervisor, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    processes.wait_for_start(job.id)
    workers = workers_of(processes)

    supervisor.kill()
    wait_until(lambda: supervisor.output().count("worker stopping") == 2, "both drain")
    gate.touch()

    for pid in workers:
        wait_until(lambda pid=pid: is_gone(pid), "the worker ends")
    assert processes.status_of(job.id) == "completed"
    processes.check_invariants([job.id])


def test_a_second_signal_ends_all_at_once_and_the_job_comes_back(processes, supervisor, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    processes.wait_for_start(job.id)
    workers = workers_of(processes)

    supervisor.send(signal.SIGTERM)
    wait_until(lambda: "supervisor stopping" in supervisor.output(), "it drains")

    assert supervisor.insist(signal.SIGTERM) == 128 + signal.SIGTERM
    assert all(is_gone(pid) for pid in workers)
    gate.touch()
    processes.worker("--maintain")
    processes.wait_for_status(job.id, "completed")
    processes.check_invariants([job.id])


def test_two_signals_at_once_are_one_request(processes, supervisor, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    processes.wait_for_start(job.id)

    supervisor.send_together(signal.SIGTERM, signal.SIGINT)
    wait_until(lambda: supervisor.output().count("worker stopping") == 2, "both drain")
    gate.touch()

    assert supervisor.wait() == 0
    assert processes.status_of(job.id) == "completed"
    processes.check_invariants([job.id])


def test_only_one_worker_does_maintenance(processes, supervisor):
    jobs = [quick.enqueue().id for _ in range(20)]
    processes.wait_until_empty()

    assert supervisor.output().count("maintenance started") == 1
    processes.check_invariants(jobs)


def test_no_worker_is_started_while_migrations_are_missing(processes):
    processes.connection.execute(
        "UPDATE django_migrations SET app = 'hidden' WHERE app = 'django_pgjobs'"
    )
    try:
        process = processes.start("pgjobs_worker", "--processes", "2")

        assert process.wait() == 1
        assert process.output().count("The tables of django_pgjobs are not up to date") == 1
    finally:
        processes.connection.execute(
            "UPDATE django_migrations SET app = 'django_pgjobs' WHERE app = 'hidden'"
        )
