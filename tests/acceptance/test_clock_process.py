"""The clocks of workers and maintenance are ten minutes wrong, and nothing comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta

import pytest

from tests import factories
from tests.acceptance.jobs import gated, quick
from tests.fix_workers import ROOT, wait_until

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [10, -10], ids=["fast", "slow"])
def test_delays_leases_schedules_and_order_follow_the_clock_of_the_server(
    processes, tmp_path, minutes
):
    processes.environment["PGJOBS_TEST_CLOCK_SHIFT"] = str(minutes * 60)
    assert abs(error_of(processes) - minutes * 60) < 60
    now = factories.server_now()
    schedule = factories.CronScheduleFactory(
        cron_expression="* * * * * *", job_name=quick.name, active_since=now
    )
    gate = tmp_path / "gate"

    processes.maintenance()
    worker = processes.worker("--concurrency", "1")
    lost = gated.enqueue(gate=str(gate))
    processes.wait_for_start(lost.id)
    worker.kill()
    # The job of the dead worker is returned after a lease, 3 s, and not after ten minutes.
    processes.worker("--concurrency", "1")
    processes.wait_for_start(lost.id, claim=2)
    jobs = [quick.using(queue="own").enqueue(number=number).id for number in range(5)]
    delayed = quick.using(queue="own", delay=timedelta(seconds=2)).enqueue().id
    gate.touch()
    for job_id in (lost.id, *jobs, delayed):
        processes.wait_for_status(job_id, "completed")

    started = [event.job_id for event in processes.events("start") if event.job_id in jobs]
    assert started == jobs
    waited = processes.value(
        "SELECT started_at - created_at FROM jobs_completed WHERE id = %s", delayed
    )
    assert timedelta(seconds=2) <= waited < timedelta(seconds=30)
    wait_until(
        lambda: processes.value(
            "SELECT count(*) FROM cron_runs WHERE schedule_id = %s", schedule.pk
        ),
        "the schedule fires",
    )
    late = processes.value("SELECT max(recorded_at - slot_at) FROM cron_runs")
    early = processes.value("SELECT min(recorded_at - slot_at) FROM cron_runs")
    assert timedelta(0) <= early <= late < timedelta(seconds=60)


def error_of(processes):
    """Return by how much the clock of a process is wrong, in seconds."""
    settings = {"DJANGO_SETTINGS_MODULE": "tests.acceptance.settings"}
    done = subprocess.run(
        [sys.executable, "-c", "import django, time; django.setup(); print(time.time())"],
        env={**os.environ, **settings, **processes.environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout) - time.time()
