"""Caps and pauses, with real workers."""

from __future__ import annotations

import pytest

from django_pgjobs.administration import operations
from django_pgjobs.models import TenantConfig
from tests.acceptance.jobs import gated, quick

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
