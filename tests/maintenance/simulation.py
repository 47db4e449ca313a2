"""Three schedulers in processes of their own, killed at random while a clock runs.

``python -m tests.maintenance.simulation SEED`` forks schedulers that take the time from a table,
and moves that time on over a thousand minutes: in steps, some long, some of them backwards.
At random moments it stops a scheduler, sees whether that has written and not committed, kills it,
and starts another. It prints how many it killed, and how many of them in a transaction.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta

import django
import psycopg

START = datetime(2026, 6, 15, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SLOTS = 1_000
SCHEDULERS = 3
KILLS = 100


def schedule_for_ever(conninfo: str) -> None:
    """Fire what is due by the clock of the table, until killed."""
    from django_pgjobs.definitions.registry import Registry
    from django_pgjobs.definitions.slots import Defaults
    from django_pgjobs.maintenance.scheduler import Scheduler

    scheduler = Scheduler(
        registry=Registry(), defaults=Defaults(queue="default", max_attempts=3), listen=False
    )
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"SET application_name = 'scheduler {os.getpid()}'")
        while True:
            (now,) = connection.execute("SELECT now FROM simulation.clock").fetchone()
            scheduler.run_once(connection, batch_size=10, now=now)


def fork(conninfo: str) -> int:
    """Start a scheduler and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        schedule_for_ever(conninfo)
    finally:
        os._exit(1)


def kill(connection: psycopg.Connection, pid: int) -> bool:
    """Kill a scheduler; say whether it had written what was not committed."""
    os.kill(pid, signal.SIGSTOP)
    row = connection.execute(
        "SELECT backend_xid IS NOT NULL FROM pg_stat_activity WHERE application_name = %s",
        [f"scheduler {pid}"],
    ).fetchone()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return row is not None and row[0]


def times(chance: random.Random):
    """Yield the minutes that the clock shows, from 1 to SLOTS."""
    minute = 0
    while minute < SLOTS:
        minute = min(SLOTS, minute + chance.choice([1, 1, 2, 3, 20]))
        yield minute
        if chance.random() < 0.05:
            yield max(0, minute - chance.randrange(50))


def run(conninfo: str, seed: int) -> None:
    """Run the clock and kill schedulers until every slot has come and enough were killed."""
    chance = random.Random(seed)
    connection = psycopg.connect(conninfo, autocommit=True)
    pids = [fork(conninfo) for _ in range(SCHEDULERS)]
    minutes, kills, in_transaction = list(times(chance)), 0, 0
    try:
        while minutes or kills < KILLS:
            if minutes:
                now = START + minutes.pop(0) * MINUTE
                connection.execute("UPDATE simulation.clock SET now = %s", [now])
            time.sleep(chance.uniform(0, 0.02))
            if chance.random() < KILLS / 250:
                victim = chance.randrange(SCHEDULERS)
                in_transaction += kill(connection, pids[victim])
                kills += 1
                pids[victim] = fork(conninfo)
        deadline = time.monotonic() + 30
        query = "SELECT count(*) FROM cron_schedules WHERE next_run_at <= %s"
        while connection.execute(query, [now]).fetchone() != (0,):
            assert time.monotonic() < deadline, "The schedulers do not get ready."
            time.sleep(0.05)
    finally:
        for pid in pids:
            kill(connection, pid)
    print(kills, in_transaction)


if __name__ == "__main__":
    django.setup()
    run(os.environ["SIMULATION_CONNINFO"], int(sys.argv[1]))
