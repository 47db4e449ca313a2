"""Handlers that do not end at their timeout."""

from __future__ import annotations

import os

import pytest

from tests.acceptance.jobs import quick, stuck

pytestmark = pytest.mark.process

SOON = {"TIMEOUT_GRACE": 0.2}


@pytest.fixture
def pipe(tmp_path):
    """Return a pipe; whoever opens it for reading hangs until it is opened for writing."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_stuck_thread_is_written_off_and_another_takes_its_place(processes, pipe):
    job = stuck.enqueue(pipe=str(pipe))
    worker = processes.worker("--concurrency", "2", durations=SOON)

    processes.wait_for_status(job.id, "dead")

    outcome, message, trace = processes.connection.execute(
        "SELECT outcome, error_message, traceback FROM job_attempts WHERE job_id = %s", [job.id]
    ).fetchone()
    assert outcome == "timeout"
    assert "was written off" in message
    assert 'in stuck\n    with open(pipe, "rb")' in trace
    # When the pipe opens at last, how the handler ends is not wanted any more.
    pipe.write_bytes(b"")
    others = [quick.enqueue(number=number).id for number in range(20)]
    processes.wait_until_empty()
    assert worker.popen.poll() is None
    assert processes.status_of(job.id) == "dead"
    processes.check_invariants([job.id, *others])


def test_a_worker_of_stuck_threads_asks_to_be_restarted(processes, pipe):
    job = stuck.enqueue(pipe=str(pipe))
    worker = processes.worker("--concurrency", "1", durations=SOON)

    assert worker.wait() == 3

    assert processes.status_of(job.id) == "dead"
    assert "written off" in worker.output()
    processes.check_invariants([job.id])
