"""Real workers with handlers in an event loop."""

from __future__ import annotations

import signal

import pytest

from django_pgjobs import enqueue_many
from django_pgjobs.administration import operations
from tests.acceptance.jobs import (
    blocking_async,
    count_async,
    exit_async,
    gated,
    gated_async,
    gated_async_in_thread,
    quick,
    stubborn_async,
)
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process


def outcomes_of(processes, job_id):
    rows = processes.connection.execute(
        "SELECT outcome FROM job_attempts WHERE job_id = %s ORDER BY claim", [job_id]
    )
    return [outcome for (outcome,) in rows]


def was_cancelled(gate, job_id):
    return gate.with_name(f"{gate.name}.cancelled.{job_id}").exists()


def test_hundreds_of_handlers_run_at_the_same_time(processes, tmp_path):
    gate = tmp_path / "gate"
    jobs = enqueue_many(gated_async.prepare(gate=str(gate)) for _ in range(400))
    processes.worker("--async-concurrency", "400", "--concurrency", "1")

    wait_until(lambda: len(processes.events("start")) == 400, "all run at once")
    assert processes.events("end") == []
    gate.touch()

    processes.wait_until_empty()
    assert len(processes.events("end")) == 400
    processes.check_invariants([job.id for job in jobs])


def test_sync_and_async_jobs_share_a_queue(processes, tmp_path):
    gate = tmp_path / "gate"
    kinds = (gated, gated_async, gated_async_in_thread)
    waiting = [kind.enqueue(gate=str(gate)).id for kind in kinds]
    prepared = [job for _ in range(200) for job in (quick.prepare(), count_async.prepare())]
    mixed = [job.id for job in enqueue_many(prepared)]
    processes.worker("--concurrency", "3")

    # Neither the threads nor the loop wait for the other's gates.
    completed = "SELECT count(*) FROM jobs_completed WHERE status = 'completed'"
    wait_until(lambda: processes.value(completed) == 400, "the mixed jobs are done")
    assert len(processes.events("start")) == 403
    gate.touch()

    processes.wait_until_empty()
    processes.check_invariants([*waiting, *mixed])


def test_cancelling_a_job_cancels_its_handler_alone(processes, tmp_path):
    gate = tmp_path / "gate"
    jobs = [gated_async.enqueue(gate=str(gate)).id for _ in range(3)]
    processes.worker()
    for job_id in jobs:
        processes.wait_for_start(job_id)

    operations.cancel(None, jobs[1:2])
    processes.wait_for_status(jobs[1], "cancelled")

    assert outcomes_of(processes, jobs[1]) == ["cancelled"]
    gate.touch()
    processes.wait_until_empty()
    assert [was_cancelled(gate, job_id) for job_id in jobs] == [False, True, False]
    assert {event.job_id for event in processes.events("end")} == {jobs[0], jobs[2]}
    processes.check_invariants(jobs)


def test_a_lost_lease_cancels_its_handler_alone(processes, tmp_path):
    gate = tmp_path / "gate"
    jobs = [gated_async.enqueue(gate=str(gate)).id for _ in range(3)]
    processes.worker()
    for job_id in jobs:
        processes.wait_for_start(job_id)

    # As the reaper does, if the lease had expired.
    processes.connection.execute(
        """
        WITH expired AS (
            UPDATE jobs_active
            SET status = 'pending', locked_by = NULL, locked_at = NULL, lease_expires = NULL,
                fence_token = NULL
            FROM (SELECT fence_token, locked_by, locked_at FROM jobs_active WHERE id = %(id)s) old
            WHERE id = %(id)s
            RETURNING jobs_active.*, old.fence_token AS token, old.locked_by AS worker,
                old.locked_at AS began
        )
        INSERT INTO job_attempts (job_id, tenant_id, fence_token, started_at, finished_at, claim,
            generation, attempt, job_name, queue_name, worker_id, outcome)
        SELECT id, tenant_id, token, began, clock_timestamp(), claims, generation, attempt,
            job_name, queue_name, worker, 'lost'
        FROM expired
        """,
        {"id": jobs[1]},
    )
    wait_until(lambda: was_cancelled(gate, jobs[1]), "its handler is cancelled")

    processes.wait_for_start(jobs[1], claim=2)
    assert [was_cancelled(gate, job_id) for job_id in jobs] == [False, True, False]
    gate.touch()
    processes.wait_until_empty()
    assert outcomes_of(processes, jobs[1]) == ["lost"]
    processes.check_invariants(jobs)


def test_a_handler_that_ignores_its_timeout_is_written_off(processes, tmp_path):
    gate = tmp_path / "gate"
    job = stubborn_async.enqueue(gate=str(gate))
    worker = processes.worker("--async-concurrency", "2", durations={"TIMEOUT_GRACE": 0.2})

    processes.wait_for_status(job.id, "dead")

    message, trace = processes.connection.execute(
        "SELECT error_message, traceback FROM job_attempts WHERE job_id = %s", [job.id]
    ).fetchone()
    assert outcomes_of(processes, job.id) == ["timeout"]
    assert "was written off" in message
    assert "in stubborn_async\n    await gate_is_open(gate)" in trace
    others = [count_async.enqueue().id for _ in range(20)]
    gate.touch()
    processes.wait_until_empty()
    assert worker.popen.poll() is None
    assert processes.status_of(job.id) == "dead"
    processes.check_invariants([job.id, *others])


def test_a_handler_that_blocks_the_loop_costs_no_lease(processes, tmp_path):
    """Two leases long; the threads of the protocol and of other jobs go on meanwhile."""
    gate, open_gate = tmp_path / "gate", tmp_path / "open"
    open_gate.touch()
    durations = {"LEASE_DURATION": 3, "HEARTBEAT_INTERVAL": 0.3}
    processes.maintenance(durations)
    worker = processes.worker(durations={**durations, "LEASE_DURATION": 30})
    blocking = blocking_async.enqueue(gate=str(gate)).id
    processes.wait_for_start(blocking)
    waiting = gated_async.enqueue(gate=str(open_gate)).id
    others = [quick.enqueue().id for _ in range(20)]

    wait_until(lambda: "The event loop is blocked" in worker.output(), "the worker complains")
    for job_id in others:
        processes.wait_for_status(job_id, "completed")
    renewed = "SELECT lease_expires > locked_at + interval '31 s' FROM jobs_active WHERE id = %s"
    wait_until(lambda: processes.value(renewed, blocking), "its lease is renewed")
    wait_until(lambda: processes.value(renewed, waiting), "so is that of what waits behind it")
    gate.touch()

    processes.wait_until_empty()
    assert f"id={blocking} name={blocking_async.name}" in worker.output()
    assert outcomes_of(processes, blocking) == outcomes_of(processes, waiting) == []
    processes.check_invariants([blocking, waiting, *others])


def test_a_loop_that_is_blocked_for_good_ends_its_worker(processes, tmp_path):
    gate = tmp_path / "gate"
    blocking = blocking_async.using(max_attempts=1).enqueue(gate=str(gate)).id
    durations = {"LEASE_DURATION": 1.5, "HEARTBEAT_INTERVAL": 0.3, "SHUTDOWN_TIMEOUT": 0.2}
    worker = processes.worker(durations=durations)
    processes.wait_for_start(blocking)
    waiting = gated_async.enqueue(gate=str(gate)).id

    assert worker.wait() == 3

    assert processes.status_of(blocking) == "dead"
    assert outcomes_of(processes, blocking) == ["timeout"]
    gate.touch()
    processes.worker()
    processes.wait_for_status(waiting, "completed")
    processes.check_invariants([blocking, waiting])


def test_handlers_cannot_end_the_loop(processes, tmp_path):
    gate = tmp_path / "gate"
    waiting = gated_async.enqueue(gate=str(gate)).id
    worker = processes.worker()
    processes.wait_for_start(waiting)

    job = exit_async.enqueue().id
    processes.wait_for_status(job, "dead")
    gate.touch()

    processes.wait_for_status(waiting, "completed")
    assert worker.popen.poll() is None
    assert outcomes_of(processes, job) == ["failed"]
    processes.check_invariants([waiting, job])


def test_a_worker_that_drains_lets_its_handlers_finish(processes, tmp_path):
    gate = tmp_path / "gate"
    running = [gated_async.enqueue(gate=str(gate)).id for _ in range(2)]
    worker = processes.worker("--async-concurrency", "2")
    for job_id in running:
        processes.wait_for_start(job_id)
    waiting = gated_async.enqueue(gate=str(gate)).id

    worker.send(signal.SIGTERM)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")
    gate.touch()

    assert worker.wait() == 0
    assert [processes.status_of(job_id) for job_id in running] == ["completed", "completed"]
    assert processes.status_of(waiting) in {"pending", "retryable"}
    processes.check_invariants([*running, waiting], quiet=False)


def test_at_the_deadline_handlers_are_cancelled_and_their_jobs_given_back(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated_async.enqueue(gate=str(gate)).id
    worker = processes.worker(durations={"SHUTDOWN_TIMEOUT": 0.2})
    processes.wait_for_start(job)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert was_cancelled(gate, job)
    assert processes.status_of(job) == "retryable"
    assert outcomes_of(processes, job) == ["released"]
    assert processes.value("SELECT attempt FROM jobs_active WHERE id = %s", job) == 0
    processes.check_invariants([job], quiet=False)


def test_a_second_signal_does_not_wait_for_handlers(processes, tmp_path):
    gate = tmp_path / "gate"
    job = gated_async.enqueue(gate=str(gate)).id
    worker = processes.worker()
    processes.wait_for_start(job)

    worker.send(signal.SIGTERM)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")

    assert worker.insist(signal.SIGTERM) == 128 + signal.SIGTERM
    gate.touch()
    processes.worker("--maintain")
    processes.wait_for_status(job, "completed")
    processes.check_invariants([job])
