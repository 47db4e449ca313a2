"""Workers that are left alone for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from django_pgjobs import enqueue_many
from tests.acceptance.jobs import ask_often, gated, hog
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process

SHORT_LEASE = {"LEASE_DURATION": 1.5, "HEARTBEAT_INTERVAL": 0.3}

COMPLETED = "SELECT count(*) FROM jobs_completed"

MEGABYTE = 1024 * 1024


def resident_bytes(pid: int) -> int:
    """Return the memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_a_handler_that_only_computes_costs_nobody_his_lease(processes, tmp_path):
    """In a thread of the worker, next to its heartbeat and to other handlers."""
    gate = tmp_path / "gate"
    jobs = [handler.enqueue(gate=str(gate)).id for handler in (hog, gated, gated)]
    processes.maintenance(SHORT_LEASE)
    worker = processes.worker(durations=SHORT_LEASE)
    for job_id in jobs:
        processes.wait_for_start(job_id)

    query = "SELECT bool_and(now() > locked_at + interval '4.5 s') FROM jobs_active"
    wait_until(lambda: processes.value(query), "three leases have passed")
    gate.touch()

    processes.wait_until_empty()
    assert "lease lost" not in worker.output()
    assert len(processes.events("start")) == len(jobs)
    processes.check_invariants(jobs)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_jobs(processes):
    """In DEBUG Django keeps the queries of a connection: here two hundred times the jobs."""
    processes.environment |= {"PGJOBS_TEST_DEBUG": "1"}
    worker = processes.worker("--queues", "default", "--concurrency", "4")

    def run(count: int) -> int:
        done = processes.value(COMPLETED)
        enqueue_many(ask_often.prepare() for _ in range(count))
        wait_until(lambda: processes.value(COMPLETED) == done + count, f"{count} jobs run")
        return resident_bytes(worker.pid)

    before = run(1_000)

    # 40,000 queries; the log of a connection would keep the last 9,000 of its own.
    assert run(4_000) - before < 5 * MEGABYTE


def test_a_worker_without_work_says_nothing(processes):
    worker = processes.worker("--maintain", durations={"POLL_INTERVAL": 0.02})
    wait_until(lambda: "maintenance leads" in worker.output(), "maintenance leads")
    query = "SELECT heartbeat_at > started_at + interval '4 s' FROM job_workers"

    # As many looks and runs of each service as there are in many hours.
    wait_until(lambda: processes.value(query), "it idles")

    lines = [line.split(" ", 4)[-1] for line in worker.output().splitlines()]
    assert {line.split(":")[0] for line in lines} <= {
        "worker started",
        "maintenance started",
        "maintenance leads",
        "partitioner",
    }
    assert len(lines) < 10
