"""Leases that depend on progress."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import stall_in_loop, stall_in_process, stall_in_thread
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process

DURATIONS = {"LEASE_DURATION": 1.5, "HEARTBEAT_INTERVAL": 0.2}


@pytest.mark.parametrize("handler", [stall_in_thread, stall_in_loop, stall_in_process])
def test_a_handler_that_stands_still_loses_its_lease_and_no_other_does(
    processes, tmp_path, handler
):
    gate = tmp_path / "gate"
    job = handler.enqueue(gate=str(gate))
    processes.maintenance(DURATIONS)
    worker = processes.worker(durations=DURATIONS)
    message = "SELECT progress->>'message' FROM jobs_active WHERE id = %s"
    wait_until(lambda: processes.value(message, job.id) == "moving", "it is seen to move")

    # While it moved it kept its lease, for longer than that lasts; then it lost it.
    processes.wait_for_start(job.id, claim=2)
    gate.touch()

    processes.wait_for_status(job.id, "completed")
    outcome, has_moved = processes.connection.execute(
        "SELECT outcome, finished_at - started_at > interval '2.5 s' FROM job_attempts "
        "WHERE job_id = %s",
        [job.id],
    ).fetchone()
    assert (outcome, has_moved) == ("lost", True)
    assert f"lease lost: id={job.id}" in worker.output()
    processes.check_invariants([job.id])
