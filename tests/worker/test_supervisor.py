"""A supervisor and what it starts: here, small programs in place of workers."""

from __future__ import annotations

import signal
import subprocess
from datetime import timedelta
from random import Random

import pytest

from django_pgjobs.worker.supervisor import Supervisor
from tests.fix_workers import run_without_threads, wait_until

#: Reads its lifeline to the end; exits with the code that is given to it.
OBEYS = "cat /dev/fd/{lifeline} >/dev/null; exit {code}"
#: Notices nothing.
HANGS = "exec sleep 600"

PATIENCE = timedelta(seconds=60)


@pytest.fixture
def supervise(background):
    """Return a function that runs a supervisor, and the processes that it has started."""
    made = []

    def supervise(*programs, patience=PATIENCE, codes=(0, 0)):
        started = []

        def start(number, lifeline):
            program = programs[number - 1].format(lifeline=lifeline, code=codes[number - 1])
            popen = subprocess.Popen(["/bin/sh", "-c", program], pass_fds=[lifeline])
            started.append(popen)
            return popen

        supervisor = Supervisor(len(programs), start=start, patience=patience, random=Random(1))
        made.append((supervisor, started))
        return supervisor, started, background(supervisor.run)

    yield supervise
    for supervisor, started in made:
        supervisor.stop(signal.SIGTERM)
        supervisor.stop(signal.SIGTERM)
        for popen in started:
            popen.kill()
            popen.wait()


def test_a_worker_that_cannot_be_watched_is_killed_and_started_anew():
    run_without_threads("supervisor")


def test_when_all_workers_have_drained_the_exit_code_is_zero(supervise):
    supervisor, started, result = supervise(OBEYS, OBEYS)
    wait_until(lambda: len(started) == 2, "both workers run")

    supervisor.stop(signal.SIGTERM)

    assert result.result(60) == 0
    assert [popen.wait(60) for popen in started] == [0, 0]


def test_a_worker_that_did_not_drain_is_told_by_the_exit_code(supervise):
    supervisor, started, result = supervise(OBEYS, OBEYS, codes=(0, 3))
    wait_until(lambda: len(started) == 2, "both workers run")

    supervisor.stop(signal.SIGTERM)

    assert result.result(60) == 1


def test_a_worker_that_does_not_stop_in_time_is_killed(supervise):
    supervisor, started, result = supervise(OBEYS, HANGS, patience=timedelta(seconds=0.2))
    wait_until(lambda: len(started) == 2, "both workers run")

    supervisor.stop(signal.SIGTERM)

    assert result.result(60) == 1
    assert [popen.wait(60) for popen in started] == [0, -signal.SIGKILL]


def test_a_second_signal_kills_all_workers(supervise):
    supervisor, started, result = supervise(HANGS, HANGS)
    wait_until(lambda: len(started) == 2, "both workers run")

    supervisor.stop(signal.SIGINT)
    supervisor.stop(signal.SIGINT)

    assert result.result(60) == 128 + signal.SIGINT
    assert [popen.wait(60) for popen in started] == [-signal.SIGKILL] * 2


def test_a_worker_that_dies_is_started_again_and_its_neighbour_left_alone(supervise):
    supervisor, started, result = supervise(OBEYS, OBEYS)
    wait_until(lambda: len(started) == 2, "both workers run")

    started[0].kill()
    wait_until(lambda: len(started) == 3, "another worker runs")
    supervisor.stop(signal.SIGTERM)

    # What was repaired while it ran does not count.
    assert result.result(60) == 0
    assert [popen.wait(60) for popen in started] == [-signal.SIGKILL, 0, 0]
