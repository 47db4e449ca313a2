"""Threads of a worker that die of an error."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import break_loop, break_thread, gated, quick, quick_apart
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("thread", "error", "work"),
    [
        ("claimer", MemoryError, quick),
        ("finisher", MemoryError, quick),
        ("heartbeat", MemoryError, quick),
        ("listener", MemoryError, quick),
        ("loop-watch", MemoryError, quick),
        # A service of maintenance that runs out of memory is tried again.
        ("maintenance", SystemExit, quick),
        ("process-1", MemoryError, quick_apart),
    ],
)
def test_a_worker_that_has_lost_a_thread_ends_for_another_to_go_on(processes, thread, error, work):
    worker = processes.worker("--maintain", durations={"SHUTDOWN_TIMEOUT": 2})
    # Its threads wait for work by then. One that is hit while it takes a lock would keep it.
    jobs = [work.enqueue(number=0).id]
    processes.wait_for_status(jobs[0], "completed")
    jobs.append(break_thread.enqueue(name=f"pgjobs-{thread}", error=error.__name__).id)

    def has_ended() -> bool:
        # The thread may be in a wait that only work ends.
        jobs.append(work.enqueue(number=len(jobs)).id)
        return worker.popen.poll() is not None

    wait_until(has_ended, "the worker ends")

    assert worker.popen.returncode == 4
    assert f"so the worker stops: thread=pgjobs-{thread}" in worker.output()
    processes.worker("--maintain")
    processes.wait_until_empty()
    processes.check_invariants(jobs)


def test_a_worker_whose_heartbeat_hangs_ends_for_another_to_go_on(processes, tmp_path):
    gate = tmp_path / "gate"
    job_id = gated.enqueue(gate=str(gate)).id
    processes.environment["PGJOBS_TEST_HANG"] = str(tmp_path / "never")
    worker = processes.worker(
        durations={"LEASE_DURATION": 1.5, "STATEMENT_TIMEOUT": 0.3, "SHUTDOWN_TIMEOUT": 0.1}
    )
    processes.wait_for_start(job_id)

    # Somebody else has it now.
    processes.connection.execute("UPDATE jobs_active SET fence_token = fence_token + 1000")

    assert worker.wait() == 3
    output = worker.output()
    assert "a thread hangs, so the worker stops: thread=pgjobs-heartbeat" in output
    assert "hang_at_the_loss" in output


def test_a_worker_whose_claimer_hangs_ends_for_another_to_go_on(processes, tmp_path):
    processes.environment["PGJOBS_TEST_HANG"] = str(tmp_path / "never")
    job_id = break_thread.enqueue(name="pgjobs-claimer", error="Hang").id
    worker = processes.worker(
        durations={"LEASE_DURATION": 1.5, "STATEMENT_TIMEOUT": 0.3, "SHUTDOWN_TIMEOUT": 0.1}
    )

    assert worker.wait() == 3
    assert "a thread hangs, so the worker stops: thread=pgjobs-claimer" in worker.output()
    processes.maintenance()
    processes.worker()
    processes.wait_for_status(job_id, "completed")


def test_a_worker_whose_event_loop_is_broken_ends_for_another_to_go_on(processes):
    broken = break_loop.enqueue().id
    worker = processes.worker(durations={"SHUTDOWN_TIMEOUT": 1})

    assert worker.wait() == 4
    # It has not tried again and again.
    assert len(worker.output().splitlines()) < 100
    processes.maintenance()
    processes.worker()
    processes.wait_for_status(broken, "completed")
    processes.check_invariants([broken])
