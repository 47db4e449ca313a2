"""A run: chaos, then healing, then every job must end, then the verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import monotonic

from tests.chaos.acts import Chaos
from tests.chaos.faults import Fault
from tests.chaos.site import Site, site
from tests.chaos.verdict import Verdict, judge, judge_kills
from tests.fix_workers import wait_until
from tests.ledger import read_ledger
from tools.machine import command_line

#: Seconds for everything to end after the healing: far more than it takes on an idle machine.
DRAIN = 300.0

#: Seconds over which idle workers must be idle, and how much of a processor that is at most.
REST = 1.0
REST_AT_MOST = 0.5

#: Seconds in which the children of a process that was killed must have ended.
SURVIVE = 20.0

#: One fires every second and catches up with what it missed, one only while its job has ended.
SCHEDULES = """
INSERT INTO cron_schedules (name, job_name, cron_expression, catch_up, overlap)
VALUES ('every second', 'tests.chaos.jobs.tick', '* * * * * *', 'catch_up', 'allow'),
    ('one at a time', 'tests.chaos.jobs.tick', '* * * * * *', 'skip', 'skip')
"""
END_SCHEDULES = "UPDATE cron_schedules SET enabled = false"

#: Of each worker, as in tests.chaos.settings.
CONCURRENCY = 8

#: Attempts enough for whom the killer finds again and again.
PACED = """
INSERT INTO jobs_active
    (epoch, created_at, scheduled_at, status, job_name, max_attempts, payload)
SELECT jobs_epoch.last_value, now(), now(), 'pending', 'tests.chaos.jobs.paced', 100,
    jsonb_build_object('milliseconds', %s::integer)
FROM jobs_epoch, generate_series(1, %s)
RETURNING id
"""

#: A killed leader would hold up the drain for the rest of its term.
FREE_LEADERSHIP = "UPDATE maintenance_leader SET expires_at = now()"


def run_chaos(folder: Path, faults: Sequence[Fault], *, seed: int, seconds: float) -> Verdict:
    """Let everything go wrong that is in ``faults``, and judge what is left.

    Args:
        folder: for logs and the ledger; empty.
        faults: what happens when.
        seed: of what the producers do.
        seconds: from the first job to the healing.
    """
    with site(folder, workers=2, supervisors=1, producer=("{name}", str(seed))) as made:
        with made.connect() as connection:
            connection.execute(SCHEDULES)
        made.revive()
        wait_until(lambda: read_ledger(made.ledger).events, "the first job runs")
        chaos = Chaos(made)
        _rage(made, chaos, faults, seconds)
        chaos.heal()
        made.stop("producer")
        made.stop("worker", "maintenance")
        verdict = _end(made, chaos.cancelled)
        verdict.figures["faults"] = dict(sorted(chaos.done.items()))
        return verdict


def run_zombies(folder: Path, *, mutant: str = "") -> Verdict:
    """Have jobs finished by somebody who has lost them while somebody else has them.

    Each of two jobs stops the first worker that runs it, until somebody else does: the third.

    Args:
        folder: for logs and the ledger; empty.
        mutant: of the workers, see tests.chaos.mutants.
    """
    with site(folder, workers=3, producer=("{name}", "1", "zombie", "1"), mutant=mutant) as made:
        # However long that takes.
        made.environment["PGJOBS_CHAOS_LOOKS"] = "240"
        made.revive()
        wait_until(lambda: _committed(made) == 2, "both jobs are enqueued")
        made.stop("producer")
        return _end(made)


def run_kills(folder: Path, *, jobs: int, kills: int) -> Verdict:
    """Kill one of four workers every second while they have jobs to do.

    Args:
        folder: for logs and the ledger; empty.
        jobs: as slow as it takes the workers to be busy for as long as the killing lasts.
        kills: and so the seconds.
    """
    with site(folder, workers=4, maintenance=1, has_network=False) as made:
        milliseconds = 1000 * kills * 4 * CONCURRENCY // jobs
        with made.connect() as connection:
            rows = connection.execute(PACED, [milliseconds, jobs]).fetchall()
        enqueued = [job_id for (job_id,) in rows]
        made.revive()
        wait_until(lambda: read_ledger(made.ledger).events, "the first job runs")
        began, clock = monotonic(), Event()
        for number in range(1, kills + 1):
            while (wait := began + number - monotonic()) > 0:
                clock.wait(min(wait, 0.1))
            victim = made.named("worker")[number % 4]
            victim.running.kill()
            made.start(victim)
        killing = monotonic() - began
        _drain(made)
        verdict = judge_kills(made, enqueued)
        verdict.figures["kills"] = f"{kills} in {killing:.0f} s"
        verdict.figures["seconds in all"] = round(monotonic() - began, 1)
        _leave(made, verdict)
        return verdict


def _committed(made: Site) -> int:
    enqueues = read_ledger(made.ledger).enqueues.values()
    return sum(enqueue.verdict == "committed" for enqueue in enqueues)


def _end(made: Site, cancelled: Sequence[tuple[int, int]] = ()) -> Verdict:
    """Let every job end, and judge."""
    began = monotonic()
    _drain(made)
    seconds = monotonic() - began
    verdict = judge(made, cancelled=cancelled)
    verdict.figures["processes"] = sum(1 for _ in made.processes())
    verdict.figures["seconds to drain"] = round(seconds, 1)
    _rest(made, verdict)
    _leave(made, verdict)
    return verdict


def _rage(made: Site, chaos: Chaos, faults: Sequence[Fault], seconds: float) -> None:
    began, clock = monotonic(), Event()
    for fault in faults:
        while (wait := fault.at - (monotonic() - began)) > 0:
            made.revive()
            clock.wait(min(wait, 0.1))
        chaos.do(fault)
    while monotonic() - began < seconds:
        made.revive()
        clock.wait(0.1)


def _drain(made: Site) -> None:
    """Run fresh workers until every job has ended; some jobs kill them."""
    with made.connect() as connection:
        connection.execute(END_SCHEDULES)
        connection.execute(FREE_LEADERSHIP)

        def is_empty() -> bool:
            for place in (*made.named("worker"), *made.named("maintenance")):
                if not place.is_alive:
                    made.start(place)
            row = connection.execute("SELECT NOT EXISTS (SELECT FROM jobs_active)").fetchone()
            return bool(row and row[0])

        deadline, clock = monotonic() + DRAIN, Event()
        while not is_empty() and monotonic() < deadline:
            clock.wait(0.1)


def _rest(made: Site, verdict: Verdict) -> None:
    """See whether a worker that has nothing to do does nothing."""
    before = {place.name: cpu_seconds(place.running.pid) for place in made.named("worker")}
    Event().wait(REST)
    for place in made.named("worker"):
        used = cpu_seconds(place.running.pid) - before[place.name]
        if used > REST * REST_AT_MOST:
            verdict.problems.append(f"{place.name} used {used:.2f} s in {REST:.0f} s of rest")


def _leave(made: Site, verdict: Verdict) -> None:
    """End everything, and see whether that was all: also what killed processes had started."""
    made.stop("worker", "maintenance")
    deadline, clock = monotonic() + SURVIVE, Event()
    while (survivors := made.survivors()) and monotonic() < deadline:
        clock.wait(0.1)
    if survivors:
        names = [command_line(pid) for pid in survivors]
        verdict.problems.append(f"processes that nobody ends: {names}")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used; 0.0 where that cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
