"""What a run has left, compared with what its processes wrote down."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.site import Site
from tests.fix_workers import Process
from tests.invariants import check_invariants, make_ledger
from tests.ledger import Ledger, fill_enqueued, fill_executed, read_ledger

#: Records that a process may write for each second of its life, and besides.
RECORDS_A_SECOND = 8
RECORDS_BESIDES = 100

#: How processes end: in good order, isolated, by a job of theirs, by a second signal, killed.
EXIT_CODES = {0, 1, 3, 128 + signal.SIGTERM, -signal.SIGKILL}

#: Why a worker ends with 1; a supervisor does when one of its workers was killed.
ISOLATED = re.compile("reason=isolated|supervisor stopped: exit_code=1")

#: Signs of an error that nobody caught, and of one that was.
UNCAUGHT = re.compile("Traceback|CommandError|Exception in thread")
CAUGHT = re.compile(r"@ \S+ \S+ (ERROR|WARNING) (?!.*Exception in thread)", re.DOTALL)

#: While they have not begun, or when they have ended and Python has not, they have no handler.
RUNNING = re.compile(r"(worker|maintenance|producer) started(?!.* stopped)", re.DOTALL)

#: Effects of an atomic job: the row that its success has left, and nothing else.
EFFECTS = """
SELECT coalesce(effects.job_id, finished.id), effects.claims, finished.claims, finished.status
FROM (
    SELECT job_id, array_agg(claim) AS claims FROM chaos_effects GROUP BY job_id
) AS effects
FULL JOIN (
    SELECT id, claims, status::text FROM jobs_completed WHERE job_name LIKE '%.transfer%'
) AS finished ON finished.id = effects.job_id
WHERE effects.claims IS DISTINCT FROM
    CASE WHEN finished.status = 'completed' THEN ARRAY[finished.claims] END
"""

#: Slots of the schedule that catches up; there is one every second.
GAPS = """
SELECT slots.before, slots.slot_at
FROM (
    SELECT slot_at, lag(slot_at) OVER (ORDER BY slot_at) AS before
    FROM cron_runs
    WHERE schedule_id = (SELECT id FROM cron_schedules WHERE name = 'every second')
) AS slots
WHERE slots.slot_at <> slots.before + interval '1 second'
"""


@dataclass
class Verdict:
    """What is wrong, and what happened.

    Attributes:
        problems: a sentence for each promise that was broken.
        figures: how much happened.
    """

    problems: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def judge(site: Site, *, cancelled: Iterable[tuple[int, int]] = ()) -> Verdict:
    """Check every promise on a site where everything should have ended.

    Args:
        site: its workers may still run.
        cancelled: job and generation of each cancellation that was promised.
    """
    verdict = Verdict()
    ledger = read_ledger(site.ledger)
    with site.connect() as connection:
        _judge_enqueues(verdict, connection, ledger, cancelled)
        _judge_rows(verdict, connection, ledger)
        if verdict.problems:
            _keep_tables(connection, site.folder)
    for process in site.processes():
        _judge_process(verdict, process)
    _judge_server(verdict, site)
    return verdict


def judge_kills(site: Site, enqueued: list[int]) -> Verdict:
    """Check that every one of some jobs was completed once.

    Args:
        site: its workers may still run.
        enqueued: every job that there is.
    """
    verdict = Verdict()
    ledger = read_ledger(site.ledger)
    with site.connect() as connection:
        make_ledger(connection)
        fill_enqueued(connection, enqueued)
        fill_executed(connection, ledger.events)
        connection.execute("ANALYZE")
        _judge_rows(verdict, connection, ledger)
        if verdict.figures["finished"] != {"completed": len(enqueued)}:
            verdict.problems.append(f"not all were completed once: {verdict.figures['finished']}")
        lost = verdict.figures["attempts that did not succeed"].get("lost", 0)
        (claims,) = connection.execute("SELECT sum(claims) FROM jobs_completed").fetchone() or (0,)
        if claims != len(enqueued) + lost:
            verdict.problems.append(f"{claims} claims, but {len(enqueued)} + {lost} attempts")
        if verdict.problems:
            _keep_tables(connection, site.folder)
    for process in site.processes():
        _judge_process(verdict, process)
    _judge_server(verdict, site)
    return verdict


def _judge_enqueues(
    verdict: Verdict,
    connection: psycopg.Connection[Any],
    ledger: Ledger,
    cancelled: Iterable[tuple[int, int]],
) -> None:
    """Fill the ledger of the invariants, finding out what became of unknown commits."""
    orders = {token for (token,) in connection.execute("SELECT token FROM chaos_orders")}
    committed: list[int] = []
    rolled_back: list[str] = []
    verdicts: Counter[str] = Counter()
    for token, enqueue in ledger.enqueues.items():
        said = enqueue.verdict
        if said == "intended":
            # It died or lost its connection in the commit: its order says what became of it.
            said = "committed" if token in orders else "rolled_back"
            verdicts[f"unknown, {said}"] += 1
        else:
            # What had only begun cannot have committed.
            verdicts[said] += 1
        if said == "committed":
            committed += enqueue.jobs
        else:
            rolled_back.append(token)
        if (token in orders) != (said == "committed"):
            verdict.problems.append(f"the order {token} was {said}, but the table differs")
    make_ledger(connection)
    fill_enqueued(connection, committed, rolled_back)
    fill_executed(connection, ledger.events)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO ledger.cancelled VALUES (%s, %s)", list(cancelled))
    verdict.figures["enqueues"] = dict(verdicts)
    verdict.figures["enqueued"] = len(committed)


def _judge_rows(verdict: Verdict, connection: psycopg.Connection[Any], ledger: Ledger) -> None:
    for violation in check_invariants(connection, ledger=True, quiet=True):
        verdict.problems.append(f"{violation.name}: {violation.rows}")
    for row in connection.execute(EFFECTS).fetchmany(3):
        verdict.problems.append(f"effects of an atomic job, not exactly once: {row}")
    for row in connection.execute(GAPS).fetchmany(3):
        verdict.problems.append(f"slots of a schedule that catches up, with a gap: {row}")
    left = connection.execute("SELECT id, status::text FROM jobs_active").fetchmany(3)
    if left:
        verdict.problems.append(f"jobs have not ended: {left}")
    counts = "SELECT {0}::text, count(*) FROM {1} GROUP BY 1 ORDER BY 1"
    finished = connection.execute(counts.format("status", "jobs_completed")).fetchall()
    verdict.figures["finished"] = dict(finished)
    attempts = connection.execute(counts.format("outcome", "job_attempts")).fetchall()
    verdict.figures["attempts that did not succeed"] = dict(attempts)
    ends = {(noted.job_id, noted.claim) for noted in ledger.events if noted.name == "end"}
    twice = Counter(job_id for job_id, _ in ends)
    verdict.figures["jobs whose handlers came to their end more than once"] = sum(
        count > 1 for count in twice.values()
    )
    (fired,) = connection.execute("SELECT count(*) FROM cron_runs").fetchone() or (0,)
    verdict.figures["slots fired"] = fired


def _keep_tables(connection: psycopg.Connection[Any], folder: Path) -> None:
    """Copy the tables into files: the server is about to go."""
    for table in ("jobs_active", "jobs_completed", "job_attempts", "chaos_effects", "job_workers"):
        with (
            (folder / f"{table}.csv").open("wb") as file,
            connection.cursor() as cursor,
            cursor.copy(f"COPY (SELECT * FROM {table}) TO STDOUT (FORMAT csv, HEADER)") as copy,
        ):
            for block in copy:
                file.write(block)


def _judge_process(verdict: Verdict, process: Process) -> None:
    name, log, code = process.log.stem, process.output(), process.popen.poll()
    is_fine = code is None or code in EXIT_CODES
    if not is_fine and (code != -signal.SIGTERM or RUNNING.search(log)):
        verdict.problems.append(f"{name} ended with {code}: {log[-2000:]}")
    if code == 1 and not ISOLATED.search(log):
        verdict.problems.append(f"{name} failed: {log[-2000:]}")
    for record in re.split(r"(?m)^(?=@ )", log):
        # What is caught is told as an error or a warning; anything else was not caught.
        if UNCAUGHT.search(record) and not CAUGHT.match(record):
            verdict.problems.append(f"{name}: {record[-3000:]}")
    records = len(re.findall(r"(?m)^@ ", log))
    bound = RECORDS_BESIDES + RECORDS_A_SECOND * process.age
    if records > bound:
        verdict.problems.append(f"{name} wrote {records} records in {process.age:.0f} s")


def _judge_server(verdict: Verdict, site: Site) -> None:
    log = site.server.log_path.read_text(encoding="utf-8", errors="replace")
    errors = Counter(
        re.sub(r"\d+|\"[^\"]*\"", "…", error)
        for error in re.findall(r"(?:ERROR|PANIC):  (.*)", log)
    )
    verdict.figures["errors of the server"] = dict(errors.most_common())
    if any("deadlock detected" in error for error in errors):
        start = log.index("deadlock detected")
        verdict.problems.append(f"a deadlock: {log[start : start + 3000]}")
