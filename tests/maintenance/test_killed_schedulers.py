"""Each slot fires once, although the processes that fire it are killed all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import factories
from tests.invariants import check_invariants

from .simulation import KILLS, MINUTE, SLOTS, START

ROOT = Path(__file__).parents[2]


@pytest.fixture
def clock(connection):
    connection.execute("CREATE SCHEMA simulation")
    connection.execute("CREATE TABLE simulation.clock AS SELECT %s::timestamptz AS now", [START])
    yield
    connection.execute("DROP SCHEMA simulation CASCADE")


def simulate(conninfo, seed):
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "SIMULATION_CONNINFO": conninfo,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.maintenance.simulation", str(seed)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


@pytest.mark.slow
@pytest.mark.process
def test_three_schedulers_fire_a_thousand_slots_once_each(connection, conninfo, clock):
    names = {1: "* * * * *", 7: "*/7 * * * *", 60: "0 * * * *"}
    schedules = {
        step: factories.CronScheduleFactory(
            cron_expression=expression,
            active_since=START,
            catch_up="catch_up",
            catch_up_limit=1000,
        )
        for step, expression in names.items()
    }

    kills, in_transaction = simulate(conninfo, seed=6)

    assert kills >= KILLS
    assert in_transaction > 0
    for step, schedule in schedules.items():
        wanted = [minute for minute in range(1, SLOTS + 1) if minute % 60 % step == 0]
        records = connection.execute(
            "SELECT slot_at, job_id FROM cron_runs WHERE schedule_id = %s ORDER BY slot_at",
            [schedule.pk],
        ).fetchall()
        assert [(slot - START) // MINUTE for slot, _ in records] == wanted
        jobs = connection.execute(
            "SELECT scheduled_at, id FROM jobs_active WHERE meta ->> 'schedule' = %s "
            "ORDER BY scheduled_at",
            [schedule.name],
        ).fetchall()
        assert jobs == records
        assert [job_id for _, job_id in jobs] == sorted(job_id for _, job_id in jobs)
    assert check_invariants(connection) == []
