"""The pool of processes: what dies is alone."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from django_pgjobs.administration import operations
from tests.acceptance.jobs import (
    crash_apart,
    fork_and_crash,
    gated,
    gated_apart,
    gated_atomic,
    grow,
    hold_interpreter,
    never_end,
    quick,
    return_much,
    start_and_terminate,
    too_slow,
    until_cancelled_apart,
    until_stopping,
)
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process

QUEUE = ("--queues", "apart", "--process-concurrency", "2")


def attempts_of(processes, job_id):
    """Return outcome, error class and message of a job's recorded attempts."""
    return processes.connection.execute(
        "SELECT outcome, error_class, error_message FROM job_attempts "
        "WHERE job_id = %s ORDER BY claim",
        [job_id],
    ).fetchall()


def traceback_of(processes, job_id):
    return processes.value("SELECT traceback FROM job_attempts WHERE job_id = %s", job_id)


def result_of(processes, job_id):
    return processes.value("SELECT result FROM jobs_completed WHERE id = %s", job_id)


def is_gone(pid):
    """Say whether there is no such process, or it waits only to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_job_that_asks_for_it_runs_in_a_process_of_its_own(processes, tmp_path):
    (tmp_path / "gate").touch()
    worker = processes.worker("--queues", "apart,default")
    apart = gated_apart.enqueue(gate=str(tmp_path / "gate"))
    together = quick.enqueue()

    processes.wait_for_status(apart.id, "completed")
    processes.wait_for_status(together.id, "completed")

    assert processes.wait_for_start(apart.id) != worker.pid
    assert processes.wait_for_start(together.id) == worker.pid
    assert result_of(processes, apart.id) == [False, False]
    processes.check_invariants([apart.id, together.id])


def test_all_handlers_of_a_worker_may_run_in_processes(processes):
    worker = processes.worker("--pool", "processes", "--process-concurrency", "2")
    jobs = [quick.enqueue(number=number).id for number in range(50)]

    processes.wait_until_empty()

    pids = {noted.pid for noted in processes.events()}
    assert worker.pid not in pids
    assert len(pids) <= 2
    assert result_of(processes, jobs[-1]) == 49
    processes.check_invariants(jobs)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("exit", "The process exited with code 7."),
        ("kill", "The process was killed by signal 9 (SIGKILL)."),
        ("segfault", "The process was killed by signal 11 (SIGSEGV)."),
    ],
)
def test_a_crash_costs_only_its_own_attempt(processes, tmp_path, way, message):
    """Without maintenance: the worker sees it itself, and long before the lease ends."""
    gate = tmp_path / "gate"
    worker = processes.worker(*QUEUE, durations={"LEASE_DURATION": 600.0})
    neighbour = gated_apart.enqueue(gate=str(gate))
    processes.wait_for_start(neighbour.id)

    crashing = crash_apart.enqueue(way=way)
    processes.wait_for_status(crashing.id, "dead")
    gate.touch()

    processes.wait_for_status(neighbour.id, "completed")
    expected = ("lost", "django_pgjobs.exceptions.ProcessDied", message)
    assert attempts_of(processes, crashing.id) == [expected, expected]
    assert attempts_of(processes, neighbour.id) == []
    assert worker.popen.poll() is None
    assert "job lost: " in worker.output()
    processes.check_invariants([neighbour.id, crashing.id])


def test_a_crash_in_c_leaves_the_place_in_the_code_on_record(processes):
    processes.worker(*QUEUE)

    crashing = crash_apart.using(max_attempts=1).enqueue(way="segfault")
    processes.wait_for_status(crashing.id, "dead")

    assert "in dereference_null" in traceback_of(processes, crashing.id)


def test_a_crash_is_seen_at_once_also_if_the_handler_had_forked(processes, tmp_path):
    gate = tmp_path / "gate"
    processes.worker(*QUEUE, durations={"LEASE_DURATION": 600.0})
    job = fork_and_crash.enqueue(gate=str(gate))

    processes.wait_for_status(job.id, "dead")

    assert [outcome for outcome, _, _ in attempts_of(processes, job.id)] == ["lost"]
    assert not is_gone(int(Path(f"{gate}.pid").read_text()))
    gate.touch()


def test_a_handler_that_keeps_the_interpreter_keeps_its_lease(processes, tmp_path):
    gate = tmp_path / "gate"
    durations = {"LEASE_DURATION": 1.5, "HEARTBEAT_INTERVAL": 0.3}
    processes.maintenance(durations)
    processes.worker(*QUEUE, durations=durations)
    job = hold_interpreter.enqueue(gate=str(gate))
    processes.wait_for_start(job.id)

    query = "SELECT clock_timestamp() > locked_at + interval '6 s' FROM jobs_active WHERE id = %s"
    wait_until(lambda: processes.value(query, job.id), "four leases have passed")
    gate.touch()

    processes.wait_for_status(job.id, "completed")
    assert len(processes.events("start")) == 1
    processes.check_invariants([job.id])


def test_a_handler_that_runs_too_long_gets_its_timeout(processes):
    processes.worker(*QUEUE)
    job = too_slow.enqueue()

    processes.wait_for_status(job.id, "dead")

    ((outcome, error_class, _),) = attempts_of(processes, job.id)
    assert (outcome, error_class) == ("timeout", "django_pgjobs.exceptions.JobTimeout")
    assert "in too_slow" in traceback_of(processes, job.id)


def test_a_handler_that_does_not_end_is_killed_with_all_it_has_started(processes, tmp_path):
    gate = tmp_path / "gate"
    processes.worker(*QUEUE, durations={"TIMEOUT_GRACE": 1.0})
    job = never_end.enqueue(gate=str(gate))
    pid = processes.wait_for_start(job.id)

    processes.wait_for_status(job.id, "dead")

    ((outcome, error_class, message),) = attempts_of(processes, job.id)
    assert (outcome, error_class) == ("timeout", "django_pgjobs.exceptions.JobTimeout")
    assert message == (
        "The handler did not end at its timeout. The process was killed by signal 9 (SIGKILL). "
        "It was killed by the worker after a grace."
    )
    assert "in never_end" in traceback_of(processes, job.id)
    wait_until(lambda: is_gone(pid), "the process is gone")
    started = int(Path(f"{gate}.pid").read_text())
    wait_until(lambda: is_gone(started), "so is the program that it had started")


def test_a_cancelled_handler_is_told_and_killed_if_it_goes_on(processes, tmp_path):
    durations = {"TIMEOUT_GRACE": 0.5}
    processes.worker(*QUEUE, durations=durations)
    job = hold_interpreter.enqueue(gate=str(tmp_path / "gate"))
    pid = processes.wait_for_start(job.id)

    operations.cancel(None, [job.id])

    processes.wait_for_status(job.id, "cancelled")
    wait_until(lambda: is_gone(pid), "the process is gone")
    ((outcome, error_class, message),) = attempts_of(processes, job.id)
    assert (outcome, error_class) == ("cancelled", "django_pgjobs.exceptions.ProcessDied")
    assert message == (
        "The process was killed by signal 9 (SIGKILL). Its job was cancelled or its lease lost, "
        "and the handler went on."
    )
    processes.check_invariants([job.id])


def test_a_handler_hears_that_its_job_was_cancelled(processes):
    worker = processes.worker(*QUEUE, durations={"TIMEOUT_GRACE": 60.0})
    job = until_cancelled_apart.enqueue()
    processes.wait_for_start(job.id)

    operations.cancel(None, [job.id])

    processes.wait_for_status(job.id, "cancelled")
    assert len(processes.events("end")) == 1
    assert "was killed" not in worker.output()


def test_a_handler_whose_lease_is_lost_is_killed_and_no_other(processes, tmp_path):
    gate = tmp_path / "gate"
    worker = processes.worker(*QUEUE, durations={"TIMEOUT_GRACE": 0.5})
    neighbour = gated_apart.enqueue(gate=str(gate))
    processes.wait_for_start(neighbour.id)
    # Its gate stays closed: only a signal can end it.
    job = hold_interpreter.enqueue(gate=str(tmp_path / "other"))
    pid = processes.wait_for_start(job.id)

    processes.connection.execute("DELETE FROM jobs_active WHERE id = %s", [job.id])

    wait_until(lambda: is_gone(pid), "the process is gone")
    gate.touch()
    processes.wait_for_status(neighbour.id, "completed")
    assert worker.popen.poll() is None
    assert attempts_of(processes, neighbour.id) == []


def test_a_signal_to_every_process_drains_the_worker_and_ends_no_handler(processes):
    """As systemd sends it with KillMode=control-group."""
    worker = processes.worker(*QUEUE)
    job = until_stopping.enqueue()
    pid = processes.wait_for_start(job.id)

    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert result_of(processes, job.id) is True
    wait_until(lambda: is_gone(pid), "the process is gone")
    processes.check_invariants([job.id])


def test_a_program_that_a_handler_starts_can_be_stopped(processes):
    """It inherits neither that signals are blocked nor that they are ignored."""
    processes.worker(*QUEUE)
    job = start_and_terminate.enqueue()

    processes.wait_for_status(job.id, "completed")

    assert result_of(processes, job.id) == -signal.SIGTERM


def test_what_runs_at_the_deadline_is_killed_and_given_back_uncounted(processes, tmp_path):
    worker = processes.worker(*QUEUE, durations={"SHUTDOWN_TIMEOUT": 0.2})
    job = hold_interpreter.enqueue(gate=str(tmp_path / "gate"))
    pid = processes.wait_for_start(job.id)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert is_gone(pid)
    assert processes.status_of(job.id) == "retryable"
    assert processes.value("SELECT attempt FROM jobs_active WHERE id = %s", job.id) == 0
    assert [outcome for outcome, _, _ in attempts_of(processes, job.id)] == ["released"]
    processes.check_invariants([job.id], quiet=False)


@pytest.mark.parametrize("handler", [gated_apart, hold_interpreter])
def test_a_worker_that_is_killed_leaves_no_process_behind(processes, tmp_path, handler):
    gate = tmp_path / "gate"
    processes.maintenance()
    worker = processes.worker(*QUEUE)
    job = handler.enqueue(gate=str(gate))
    pid = processes.wait_for_start(job.id)

    worker.kill()

    wait_until(lambda: is_gone(pid), "the process is gone")
    gate.touch()
    processes.worker(*QUEUE)
    processes.wait_for_status(job.id, "completed")
    assert [outcome for outcome, _, _ in attempts_of(processes, job.id)] == ["lost"]
    processes.check_invariants([job.id])


def test_an_atomic_job_has_its_effect_once_whenever_its_process_dies(processes, tmp_path):
    processes.connection.execute("CREATE TABLE effects (job_id bigint NOT NULL)")
    try:
        gate = tmp_path / "gate"
        processes.worker("--pool", "processes", "--process-concurrency", "2")
        job = gated_atomic.enqueue(gate=str(gate))
        for claim in (1, 2):
            os.kill(processes.wait_for_start(job.id, claim), signal.SIGKILL)
        processes.wait_for_start(job.id, 3)
        gate.touch()

        processes.wait_for_status(job.id, "completed")

        assert processes.value("SELECT count(*) FROM effects WHERE job_id = %s", job.id) == 1
        assert [outcome for outcome, _, _ in attempts_of(processes, job.id)] == ["lost", "lost"]
        processes.check_invariants([job.id])
    finally:
        processes.connection.execute("DROP TABLE effects")


def test_a_result_that_is_too_large_does_not_undo_the_success(processes):
    worker = processes.worker(*QUEUE)
    job = return_much.enqueue()

    processes.wait_for_status(job.id, "completed")

    assert result_of(processes, job.id) is None
    assert "The result was not kept" in worker.output()


@pytest.mark.parametrize(
    ("limit", "size", "reason"),
    [({"PROCESS_MAX_JOBS": 2}, 1, "jobs=2"), ({"PROCESS_MAX_MEMORY_BYTES": 1}, 1, "bytes=")],
)
def test_a_process_is_replaced_when_it_has_done_its_part(processes, limit, size, reason):
    processes.environment["PGJOBS_TEST_SETTINGS"] = json.dumps(limit)
    worker = processes.worker("--queues", "apart", "--process-concurrency", "1")
    jobs = [grow.enqueue(size=size).id for _ in range(4)]

    processes.wait_until_empty()

    pids = [result_of(processes, job_id) for job_id in jobs]
    assert len(set(pids)) == (2 if "PROCESS_MAX_JOBS" in limit else 4)
    assert f"{reason}" in worker.output()
    processes.check_invariants(jobs)


def test_processes_that_cannot_start_give_their_jobs_to_others(processes, tmp_path):
    processes.environment["PGJOBS_TEST_BROKEN_PROCESSES"] = "1"
    worker = processes.worker(*QUEUE)
    job = gated_apart.enqueue(gate=str(tmp_path / "gate"))

    wait_until(lambda: processes.status_of(job.id) == "retryable", "the job is given back")
    assert "A process has ended before it was ready" in worker.output()
    assert [outcome for outcome, _, _ in attempts_of(processes, job.id)] == ["released"]
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_in_threads_nothing_is_started(processes):
    worker = processes.worker()
    job = gated.enqueue(gate="/")
    processes.wait_for_status(job.id, "completed")

    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()

    assert children == ""
