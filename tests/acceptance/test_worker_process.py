"""Real workers, real signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import transaction

from django_pgjobs import enqueue_many
from django_pgjobs.administration import operations
from tests.acceptance.jobs import (
    gated,
    gated_async,
    gated_async_in_thread,
    gated_atomic,
    gated_in_transaction,
    kill_own_process,
    quick,
    until_cancelled,
)
from tests.fix_workers import PATIENCE, wait_until

pytestmark = pytest.mark.process


def test_ten_thousand_jobs_run_once_each_in_two_workers(processes):
    workers = [processes.worker(), processes.worker()]

    enqueued = [job.id for job in enqueue_many(quick.prepare(number=n) for n in range(10_000))]
    processes.wait_until_empty()

    assert len(processes.events("end")) == 10_000
    assert {event.pid for event in processes.events()} == {worker.pid for worker in workers}
    completed = processes.value("SELECT count(*) FROM jobs_completed WHERE status = 'completed'")
    assert completed == 10_000
    processes.check_invariants(enqueued)


def test_a_job_of_a_killed_worker_runs_again(processes, tmp_path):
    job = gated.enqueue(gate=str(tmp_path / "gate"))
    processes.maintenance()
    first = processes.worker()
    processes.wait_for_start(job.id)

    first.kill()
    second = processes.worker()
    pid = processes.wait_for_start(job.id, claim=2)
    (tmp_path / "gate").touch()

    processes.wait_for_status(job.id, "completed")
    assert pid == second.pid
    assert processes.value("SELECT attempt FROM jobs_completed WHERE id = %s", job.id) == 2
    attempt = processes.connection.execute(
        "SELECT claim, attempt, outcome FROM job_attempts WHERE job_id = %s", [job.id]
    ).fetchall()
    assert attempt == [(1, 1, "lost")]
    processes.check_invariants([job.id])


def test_a_worker_stopped_past_its_lease_cannot_finish_its_job(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    processes.maintenance()
    zombie = processes.worker()
    processes.wait_for_start(job.id)
    zombie.send(signal.SIGSTOP)
    owner = processes.worker()
    processes.wait_for_start(job.id, claim=2)

    # The zombie ends its handler first, while the other one still owns the job.
    owner.send(signal.SIGSTOP)
    gate.touch()
    zombie.send(signal.SIGCONT)
    wait_until(lambda: "lease lost" in zombie.output(), "the zombie hears of its loss")

    assert processes.status_of(job.id) == "running"
    owner.send(signal.SIGCONT)
    processes.wait_for_status(job.id, "completed")
    locked_by = processes.value("SELECT locked_by FROM jobs_completed WHERE id = %s", job.id)
    assert f":{owner.pid}:" in locked_by
    processes.check_invariants([job.id])


#: The heartbeat comes too late for the patience of a test.
SELDOM = {"LEASE_DURATION": 900.0, "HEARTBEAT_INTERVAL": 300.0}


@pytest.mark.parametrize("listen", [True, False])
def test_a_running_job_hears_of_its_cancellation_before_the_next_heartbeat(processes, listen):
    processes.environment["PGJOBS_TEST_SETTINGS"] = json.dumps({"LISTEN": listen})
    job = until_cancelled.enqueue()
    processes.worker(durations=SELDOM)
    processes.wait_for_start(job.id)

    operations.cancel(None, [job.id], reason="enough")

    processes.wait_for_status(job.id, "cancelled")
    processes.check_invariants([job.id])


@pytest.mark.parametrize(
    "handler", [gated, gated_in_transaction, gated_async, gated_async_in_thread]
)
def test_a_job_longer_than_four_leases_runs_once(processes, tmp_path, handler):
    gate = tmp_path / "gate"
    durations = {"LEASE_DURATION": 1.5, "HEARTBEAT_INTERVAL": 0.3}
    job = handler.enqueue(gate=str(gate))
    processes.maintenance(durations)
    processes.worker(durations=durations)
    processes.wait_for_start(job.id)

    query = "SELECT clock_timestamp() > locked_at + interval '6 s' FROM jobs_active WHERE id = %s"
    wait_until(lambda: processes.value(query, job.id), "four leases have passed")
    gate.touch()

    processes.wait_for_status(job.id, "completed")
    assert len(processes.events("start")) == 1
    processes.check_invariants([job.id])


def test_what_was_claimed_behind_a_longer_job_runs_elsewhere(processes, tmp_path):
    processes.worker("--concurrency", "1")
    learned = enqueue_many([quick.prepare()] * 200)
    processes.wait_until_empty()
    gate = tmp_path / "gate"

    # The worker believes that all of it takes a moment.
    long, *others = enqueue_many([gated.prepare(gate=str(gate)), *[quick.prepare()] * 50])
    processes.wait_for_start(long.id)
    processes.worker("--concurrency", "1")

    wait_until(
        lambda: processes.value("SELECT count(*) FROM jobs_active") == 1, "all others finish"
    )
    released = "SELECT count(*) FROM job_attempts WHERE outcome = 'released'"
    assert processes.value(released) > 0
    gate.touch()
    processes.wait_until_empty()
    processes.check_invariants([job.id for job in (*learned, long, *others)])


def test_sigterm_lets_running_jobs_finish_and_gives_back_the_others(processes, tmp_path):
    gate = tmp_path / "gate"
    running = [gated.enqueue(gate=str(gate)).id for _ in range(2)]
    worker = processes.worker("--concurrency", "2")
    for job_id in running:
        processes.wait_for_start(job_id)
    waiting = quick.enqueue().id

    worker.send(signal.SIGTERM)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")
    gate.touch()

    assert worker.wait() == 0
    assert [processes.status_of(job_id) for job_id in running] == ["completed", "completed"]
    assert processes.status_of(waiting) in {"pending", "retryable"}
    assert processes.value("SELECT attempt FROM jobs_active WHERE id = %s", waiting) == 0
    processes.check_invariants([*running, waiting], quiet=False)


def test_a_job_still_running_at_the_deadline_is_given_back_uncounted(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    worker = processes.worker(durations={"SHUTDOWN_TIMEOUT": 0.2})
    processes.wait_for_start(job.id)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert processes.status_of(job.id) == "retryable"
    attempt = processes.value("SELECT attempt FROM jobs_active WHERE id = %s", job.id)
    outcome = processes.value("SELECT outcome FROM job_attempts WHERE job_id = %s", job.id)
    assert (attempt, outcome) == (0, "released")
    gate.touch()
    processes.worker()
    processes.wait_for_status(job.id, "completed")
    processes.check_invariants([job.id])


def test_a_second_signal_ends_the_worker_at_once_and_its_job_comes_back(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    worker = processes.worker()
    processes.wait_for_start(job.id)

    worker.send(signal.SIGTERM)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")

    assert worker.insist(signal.SIGTERM) == 128 + signal.SIGTERM
    gate.touch()
    processes.worker("--maintain")
    processes.wait_for_status(job.id, "completed")
    processes.check_invariants([job.id])


def test_two_signals_at_once_are_one_request(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    worker = processes.worker()
    processes.wait_for_start(job.id)

    worker.send_together(signal.SIGTERM, signal.SIGINT)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")
    gate.touch()

    assert worker.wait() == 0
    assert processes.status_of(job.id) == "completed"
    processes.check_invariants([job.id])


@pytest.mark.skipif(not shutil.which("timeout"), reason="there is no timeout(1)")
def test_a_worker_under_timeout_drains(processes, tmp_path):
    """That program sends each signal to the worker, and then to its whole group."""
    gate = tmp_path / "gate"
    job = gated.enqueue(gate=str(gate))
    timeout = processes.start("pgjobs_worker", under=["timeout", str(PATIENCE)])
    pid = processes.wait_for_start(job.id)
    try:
        timeout.send(signal.SIGTERM)
        wait_until(lambda: "worker stopping" in timeout.output(), "the worker drains")
        gate.touch()

        assert timeout.wait() == 0
        assert processes.status_of(job.id) == "completed"
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_job_that_kills_its_worker_is_dead_after_its_attempts(processes):
    job = kill_own_process.enqueue()
    processes.maintenance()

    for claim in (1, 2):
        worker = processes.worker()
        processes.wait_for_start(job.id, claim)
        assert worker.wait() == 1
    processes.wait_for_status(job.id, "dead")

    outcomes = processes.connection.execute(
        "SELECT claim, outcome FROM job_attempts WHERE job_id = %s ORDER BY claim", [job.id]
    ).fetchall()
    assert outcomes == [(1, "lost"), (2, "lost")]
    processes.check_invariants([job.id])


def test_nothing_runs_before_the_commit(processes):
    processes.worker()
    with transaction.atomic():
        job = quick.enqueue()
        other = quick.enqueue()
        # The worker has looked several times by the time it has run a job enqueued later.
        marker = processes.value(
            "INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name) "
            "VALUES (1, now(), now(), 'pending', %s) RETURNING id",
            quick.name,
        )
        processes.wait_for_status(marker, "completed")
        assert processes.status_of(job.id) is None

    processes.wait_for_status(job.id, "completed")
    processes.wait_for_status(other.id, "completed")
    processes.check_invariants([job.id, other.id, marker])


def test_a_sleeping_worker_is_woken_when_its_job_commits(processes):
    """It would look again in five minutes."""
    processes.worker(durations={"POLL_INTERVAL": 300.0})
    wait_for_sleep(processes)

    job = quick.enqueue()

    processes.wait_for_status(job.id, "completed")


def test_a_worker_whose_listener_was_killed_listens_again(processes):
    processes.worker(durations={"POLL_INTERVAL": 300.0})
    wait_for_sleep(processes)
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
    assert processes.value(query, "pgjobs listen %")
    wait_for_listener(processes)

    job = quick.enqueue()

    processes.wait_for_status(job.id, "completed")


def test_a_delayed_job_does_not_wait_for_the_next_look(processes):
    processes.worker(durations={"POLL_INTERVAL": 300.0})
    wait_for_sleep(processes)

    job = quick.using(delay=timedelta(seconds=1)).enqueue()

    processes.wait_for_status(job.id, "completed")


def test_an_atomic_job_has_its_effect_once_whenever_its_workers_die(processes, tmp_path):
    processes.connection.execute("CREATE TABLE effects (job_id bigint NOT NULL)")
    try:
        gates = [tmp_path / f"gate-{number}" for number in range(5)]
        jobs = [gated_atomic.enqueue(gate=str(gate)).id for gate in gates]
        processes.maintenance()
        # Not a third time: it would be taken for a job that kills.
        for claim, gate in enumerate(gates[:2], start=1):
            worker = processes.worker()
            processes.wait_for_start(jobs[-1], claim)
            gate.touch()
            # It dies while one job commits and the others are in the middle of their work.
            worker.kill()
        for gate in gates:
            gate.touch()
        processes.worker()

        processes.wait_until_empty()

        rows = processes.connection.execute("SELECT job_id FROM effects ORDER BY 1").fetchall()
        assert [job_id for (job_id,) in rows] == sorted(jobs)
        completed = "SELECT count(*) FROM jobs_completed WHERE status = 'completed'"
        assert processes.value(completed) == 5
        processes.check_invariants(jobs)
    finally:
        processes.connection.execute("DROP TABLE effects")


def wait_for_sleep(processes):
    """Return when a worker sleeps: it has been idle for longer than it looks on."""
    query = "SELECT EXISTS (SELECT FROM job_workers WHERE idle_since < now() - interval '1.5 s')"
    wait_until(lambda: processes.value(query), "the worker sleeps")


def wait_for_listener(processes):
    """Return when a worker listens."""
    query = (
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE %s "
        "AND query LIKE %s)"
    )
    wait_until(lambda: processes.value(query, "pgjobs listen %", "LISTEN %"), "it listens")
