"""Caps and pauses, with real workers."""

from __future__ import annotations

import pytest

from django_pgjobs.administration import operations
from django_pgjobs.models import TenantConfig
from tests.acceptance.jobs import HOUR, gated, put_off, quick

pytestmark = pytest.mark.process


def test_the_slot_of_a_killed_worker_comes_back(processes, tmp_path):
    TenantConfig.objects.create(tenant_id=7, max_concurrent_jobs=1)
    gate = tmp_path / "gate"
    held = gated.using(tenant=7, max_attempts=1).enqueue(gate=str(gate))
    processes.maintenance()
    worker = processes.worker()
    processes.wait_for_start(held.id)
    following = quick.using(tenant=7).enqueue()

    worker.kill()
    processes.worker()

    processes.wait_for_status(following.id, "completed")
    assert processes.status_of(held.id) == "dead"
    processes.check_invariants([held.id, following.id])


@pytest.mark.parametrize(
    ("status", "enqueue"),
    [
        ("failed", lambda: put_off.using(tenant=7).enqueue(outcome="fail")),
        ("retryable", lambda: put_off.using(tenant=7).enqueue(outcome="snooze")),
        ("scheduled", lambda: quick.using(tenant=7, delay=HOUR).enqueue()),
    ],
    ids=["backs off", "snoozed", "delayed"],
)
def test_a_job_that_waits_for_its_time_takes_no_place_of_its_tenant(
    processes, tmp_path, status, enqueue
):
    """A30, where the key is a tenant of which one job may run at a time."""
    TenantConfig.objects.create(tenant_id=7, max_concurrent_jobs=1)
    gate = tmp_path / "gate"
    processes.worker()
    waiting = enqueue()
    processes.wait_for_status(waiting.id, status)

    ready = gated.using(tenant=7).enqueue(gate=str(gate))
    processes.wait_for_start(ready.id)
    following = quick.using(tenant=7).enqueue()
    other = quick.using(tenant=8).enqueue()
    processes.wait_for_status(other.id, "completed")

    # Of the tenant, the job that runs holds up the next one, and nothing else does.
    assert processes.status_of(following.id) == "pending"
    gate.touch()
    processes.wait_for_status(following.id, "completed")
    assert processes.status_of(ready.id) == "completed"
    assert processes.status_of(waiting.id) == status
    assert processes.value(
        "SELECT scheduled_at > now() FROM jobs_active WHERE id = %s", waiting.id
    )
    processes.check_invariants([waiting.id, ready.id, following.id, other.id], quiet=False)


def test_after_a_pause_nothing_starts_until_the_queue_is_resumed(processes):
    for _ in range(2):
        processes.worker("--queues", "slow,other")
    before = quick.using(queue="slow").enqueue()
    processes.wait_for_status(before.id, "completed")

    assert operations.pause(None, "slow")
    assert not operations.pause(None, "slow")
    held = quick.using(queue="slow").enqueue()
    # Each worker has looked at both queues several times by the time these have run.
    for _ in range(20):
        marker = quick.using(queue="other").enqueue()
        processes.wait_for_status(marker.id, "completed")

    assert processes.status_of(held.id) == "pending"
    assert operations.resume(None, "slow")
    processes.wait_for_status(held.id, "completed")
