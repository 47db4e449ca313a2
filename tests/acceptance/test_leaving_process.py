"""Processes that end, whatever their handlers have left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios

import pytest

from django_pgjobs import enqueue_many
from tests.acceptance.jobs import (
    fork_and_exit,
    fork_and_return,
    fork_and_return_async,
    gated,
    quick,
    stay_behind,
)
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("definition", "exit_code"),
    [(fork_and_return, 0), (fork_and_exit, 7), (fork_and_return_async, 0)],
    ids=["it returns", "it exits", "it returns in an event loop"],
)
def test_a_copy_that_a_handler_makes_of_the_worker_ends_with_it(processes, definition, exit_code):
    job_id = definition.enqueue().id
    processes.worker()

    processes.wait_for_status(job_id, "completed")

    # The handler has waited for it.
    result = "SELECT result::int FROM jobs_completed WHERE id = %s"
    assert processes.value(result, job_id) == exit_code
    processes.check_invariants([job_id])


def test_what_a_handler_leaves_behind_does_not_keep_the_process(processes):
    job_id = stay_behind.enqueue().id
    worker = processes.worker()
    processes.wait_for_status(job_id, "completed")

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0


@pytest.fixture
def in_terminal():
    """Let processes start as they do in a terminal, also when the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("command", ["pgjobs_worker", "pgjobs_maintain"])
def test_a_process_whose_terminal_is_closed_stops_in_good_order(in_terminal, processes, command):
    process = processes.worker() if command == "pgjobs_worker" else processes.maintenance()

    process.send(signal.SIGHUP)

    assert process.wait() == 0
    assert "stopped: " in process.output()


def test_under_nohup_it_goes_on(processes):
    worker = processes.start("pgjobs_worker", under=["nohup"])
    processes.wait_for_status(quick.enqueue().id, "completed")

    worker.send(signal.SIGHUP)
    processes.wait_for_status(quick.enqueue().id, "completed")
    worker.send(signal.SIGTERM)

    assert worker.wait() == 0


def test_a_worker_whose_log_nobody_reads_gives_back_its_jobs(processes, tmp_path):
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    size = fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    jobs = [row.id for row in enqueue_many(quick.prepare(number=n) for n in range(200))]
    running = "SELECT count(*) FROM jobs_active WHERE status = 'running'"
    worker = processes.start(
        "pgjobs_worker",
        durations={"SHUTDOWN_TIMEOUT": 0.1},
        under=["sh", "-c", f'exec "$@" 2>{fifo}', "sh"],
    )
    # No further line fits.
    wait_until(lambda: waiting_in(reader) > size - 300, "the log is full")
    wait_until(lambda: processes.value(running), "jobs are claimed")

    worker.send(signal.SIGTERM)

    wait_until(lambda: not processes.value(running), "they are given back")
    left = "SELECT count(*) FROM jobs_active WHERE attempt = 0"
    assert 0 < processes.value(left) < len(jobs)
    os.close(reader)


def waiting_in(pipe: int) -> int:
    """Return how many bytes nobody has read yet."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)


def test_a_worker_without_an_output_stops_in_good_order(processes, tmp_path):
    gate = tmp_path / "gate"
    unfinished = gated.enqueue(gate=str(gate)).id
    worker = processes.start(
        "pgjobs_worker",
        durations={"SHUTDOWN_TIMEOUT": 0.5},
        under=["sh", "-c", 'exec "$@" >&- 2>&-', "sh"],
    )
    processes.wait_for_start(unfinished)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert processes.status_of(unfinished) in {"pending", "retryable"}
