"""Failing well, with real workers: errors that cannot be written down, crashes, breakers."""

from __future__ import annotations

import pytest

from django_pgjobs import enqueue_many
from tests.acceptance.jobs import (
    HOSTILE,
    bystander,
    gated,
    hostile,
    hostile_async,
    pay,
    poison,
    quick,
)
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize("definition", [hostile, hostile_async], ids=["threads", "async"])
def test_what_cannot_be_written_down_ends_its_job_and_no_other(processes, definition):
    """In one batch: neither the statement nor the worker fails."""
    prepared = [definition.prepare(kind=kind) for kind in HOSTILE]
    jobs = dict(zip(HOSTILE, [row.id for row in enqueue_many(prepared)], strict=True))
    neighbours = [row.id for row in enqueue_many(quick.prepare(number=n) for n in range(20))]
    worker = processes.worker()

    processes.wait_until_empty()

    ends = {kind: processes.status_of(job_id) for kind, job_id in jobs.items()}
    raising = {"NUL", "surrogate", "unspeakable", "ten megabytes", "exit", "forgetful", "exiting"}
    assert ends == {kind: "dead" if kind in raising else "completed" for kind in HOSTILE}
    assert [processes.status_of(job_id) for job_id in neighbours] == ["completed"] * 20
    longest = "SELECT max(length(error_message) + length(traceback)) FROM job_attempts"
    assert processes.value(longest) < 100_000
    assert worker.popen.poll() is None
    processes.check_invariants([*jobs.values(), *neighbours])


def test_a_crash_loop_ends_and_takes_nobody_with_it(processes, tmp_path):
    """Two processes are lost; then the suspects run apart, and only the killer is buried."""
    gates = [tmp_path / f"gate-{number}" for number in range(3)]
    killer = poison.enqueue(gate=str(gates[0])).id
    neighbours = [bystander.enqueue(gate=str(gates[2])).id for _ in range(3)]
    processes.maintenance()

    for claim in (1, 2):
        worker = processes.worker("--concurrency", "4")
        for job_id in (killer, *neighbours):
            processes.wait_for_start(job_id, claim)
        gates[0].touch()
        assert worker.wait() == 1
        gates[0].unlink()
    processes.worker("--concurrency", "4")
    pid = processes.wait_for_start(killer, 3)
    gates[0].touch()
    processes.wait_for_status(killer, "dead")
    gates[2].touch()
    processes.wait_until_empty()

    # It ran in a process of its own, and the worker went on.
    assert pid not in {process.pid for process in processes.started}
    error = processes.value("SELECT error_message FROM jobs_completed WHERE id = %s", killer)
    assert error.startswith("A poison pill: ")
    assert [processes.status_of(job_id) for job_id in neighbours] == ["completed"] * 3
    attempts = "SELECT max(attempt) FROM jobs_completed WHERE id <> %s"
    assert processes.value(attempts, killer) == 1
    processes.check_invariants([killer, *neighbours])


def test_a_row_that_is_deleted_in_mid_run_is_told_and_the_worker_goes_on(processes, tmp_path):
    gate = tmp_path / "gate"
    deleted = gated.enqueue(gate=str(gate)).id
    worker = processes.worker()
    processes.wait_for_start(deleted)

    processes.connection.execute("DELETE FROM jobs_active WHERE id = %s", [deleted])
    gate.touch()
    following = quick.enqueue().id

    processes.wait_for_status(following, "completed")
    wait_until(lambda: f"lease lost: id={deleted}" in worker.output(), "the loss is told")
    assert worker.popen.poll() is None
    assert processes.status_of(deleted) is None


def test_a_breaker_spares_a_service_that_is_down_and_its_jobs(processes, tmp_path):
    bank = tmp_path / "bank"
    jobs = [row.id for row in enqueue_many(pay.prepare(bank=str(bank)) for _ in range(40))]
    processes.maintenance()
    processes.worker("--concurrency", "2")
    others = [quick.enqueue().id for _ in range(5)]
    state = "SELECT state FROM breakers"
    blocked = "SELECT count(*) FROM jobs_active WHERE held_by = 'their bank'"

    wait_until(lambda: processes.value(state) == "open", "the breaker opens")
    wait_until(lambda: processes.value(blocked), "jobs are held")
    for job_id in others:
        processes.wait_for_status(job_id, "completed")
    bank.touch()

    processes.wait_until_empty()
    assert [processes.status_of(job_id) for job_id in jobs] == ["completed"] * 40
    assert processes.value(state) == "closed"
    processes.check_invariants([*jobs, *others])
