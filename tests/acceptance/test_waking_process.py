"""Workers that have nothing to do, and hear of work or do not."""

from __future__ import annotations

import pytest

from django_pgjobs import enqueue_many
from tests.acceptance.jobs import gated, quick, quick_apart
from tests.fix_workers import wait_until
from tests.own_server import insert_job

pytestmark = pytest.mark.process

#: They would look again in five minutes.
HARDLY_POLLS = {"POLL_INTERVAL": 300.0}


BACKENDS = """
    SELECT pid FROM pg_stat_activity
    WHERE application_name LIKE %s AND datname = current_database()
"""


def test_a_bulk_keeps_every_slot_of_every_worker_busy(processes, tmp_path):
    for _ in range(2):
        processes.worker("--concurrency", "4", durations=HARDLY_POLLS)
    processes.wait_for_sleepers(2)
    gate = tmp_path / "gate"

    enqueued = [job.id for job in enqueue_many([gated.prepare(gate=str(gate))] * 100)]

    wait_until(lambda: len(processes.events("start")) == 8, "all slots are busy")
    gate.touch()
    processes.wait_until_empty()
    processes.check_invariants(enqueued)


def test_a_worker_is_woken_only_for_what_it_has_room_for(processes, tmp_path):
    def is_idle_for(queue):
        query = "SELECT %s = ANY (idle_queues) FROM job_workers"
        return processes.value(query, queue)

    processes.worker("--concurrency", "1", durations=HARDLY_POLLS)
    # So it believes that jobs are quick, and would claim others behind any of them.
    enqueue_many([quick.prepare()] * 200)
    processes.wait_until_empty()
    processes.wait_for_sleepers(1)
    assert is_idle_for("default")
    gate = tmp_path / "gate"

    gated.enqueue(gate=str(gate))
    wait_until(lambda: not is_idle_for("default"), "its thread is taken")
    later = quick.enqueue()
    now = quick_apart.enqueue()

    # It has been woken for this one.
    processes.wait_for_status(now.id, "completed")
    assert not is_idle_for("default")
    gate.touch()
    processes.wait_for_status(later.id, "completed")
    wait_until(lambda: is_idle_for("default"), "it is idle again")


def test_a_worker_that_nobody_notifies_finds_its_jobs(processes):
    """As when the notification got lost, or was never sent."""
    processes.worker()
    processes.wait_for_sleepers(1)

    job_id = insert_job(processes.connection, quick)

    processes.wait_for_status(job_id, "completed")


def test_a_worker_that_does_not_listen_finds_its_jobs(processes):
    processes.environment["PGJOBS_TEST_SETTINGS"] = '{"LISTEN": false}'
    processes.worker()

    job = quick.enqueue()

    processes.wait_for_status(job.id, "completed")
    assert processes.connection.execute(BACKENDS, ["pgjobs claim %"]).fetchall() != []
    assert processes.connection.execute(BACKENDS, ["pgjobs listen %"]).fetchall() == []


def test_an_idle_worker_whose_backends_were_all_terminated_works_on(processes):
    worker = processes.worker(durations=HARDLY_POLLS)
    processes.wait_for_sleepers(1)
    before = processes.connection.execute(BACKENDS, [f"%:{worker.pid}:%"]).fetchall()

    terminate = "SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid"
    processes.connection.execute(terminate, [[pid for (pid,) in before]])
    job = quick.enqueue()

    processes.wait_for_status(job.id, "completed")
    assert len(before) > 2
    assert worker.popen.poll() is None
    assert processes.events("end")[0].pid == worker.pid
