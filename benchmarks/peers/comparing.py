"""``peers``: other queues beside ours, on the same server in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from ..context import Context
from ..database import database
from ..processes import CHECKOUT, running
from ..report import percentile, print_rows
from .catalogue import OURS, PEERS, Peer
from .environments import Unavailable, environment, newest_python, reason, version
from .probe import VARIABLE, read_waits

#: Seconds for one act of a queue that is not being timed.
_PATIENCE_SECONDS: Final = 120

#: Seconds between two counts of what is left.
_SHORTEST_PAUSE: Final = 0.025
_LONGEST_PAUSE: Final = 1.0

#: No round is begun that would go on for longer than so many seconds after the first one began.
_AT_MOST: Final = 12 * 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """The adapter of a queue in its environment, on a database of its own."""

    peer: Peer
    interpreter: Path
    url: str
    waits: Path

    def command(self, *arguments: str) -> list[str]:
        """Return the command for an act of driving.py."""
        module = f"benchmarks.peers.adapters.{self.peer.adapter}"
        return [str(self.interpreter), "-m", module, *arguments]

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables it needs."""
        django = "settings" if self.peer.is_ours else "peers.adapters.django_settings"
        return {
            **self.peer.variables,
            "DATABASE_URL": self.url,
            "DJANGO_SETTINGS_MODULE": f"benchmarks.{django}",
            "BENCHMARK_PEER": self.peer.name,
            VARIABLE: str(self.waits),
        }

    def run(self, *arguments: str) -> str:
        """Do one act and return what it printed.

        Raises:
            Unavailable: it failed, or took too long.
        """
        try:
            done = subprocess.run(
                self.command(*arguments),
                cwd=CHECKOUT,
                env={**os.environ, **self.variables},
                check=False,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{arguments[0]} took more than {_PATIENCE_SECONDS} s") from None
        if done.returncode != 0:
            raise Unavailable(f"{arguments[0]}: {reason(done.stderr)}")
        return done.stdout


@dataclass(slots=True, kw_only=True)
class Entry:
    """What is known of a queue so far.

    Attributes:
        peer: the queue.
        program: its adapter, once it is installed and has its tables.
        version: of its package.
        problem: why there is nothing more.
        rates: each figure, of each round.
        waits: milliseconds, of all rounds.
    """

    peer: Peer
    program: Program | None = None
    version: str | None = None
    problem: str | None = None
    rates: dict[str, list[float]] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    def add(self, rates: dict[str, float]) -> None:
        """Keep the figures of a round."""
        for name, rate in rates.items():
            self.rates.setdefault(name, []).append(rate)

    def row(self) -> dict[str, Any]:
        """Return what is reported of it."""
        return {
            "queue": self.peer.name,
            "version": self.version,
            **{name: median(rates) for name, rates in self.rates.items()},
            "p50 ms": percentile(self.waits, 50),
            "p99 ms": percentile(self.waits, 99),
            "settings": self.peer.settings,
            "problem": self.problem,
        }


def run(context: Context) -> None:
    """Measure every queue; print them, and ours against each.

    The queues take turns, and medians count, so that a busy machine slows all of them.
    """
    python = context.peer_python or newest_python()
    peers = (*OURS, *(peer for peer in PEERS if peer.name in context.peers))
    with ExitStack() as stack:
        entries = [_begin(stack, context, peer, python) for peer in peers]
        began = monotonic()
        until = began + _AT_MOST
        for number in range(context.pick(3, 1)):
            if number and monotonic() + (monotonic() - began) > until:
                print("  further rounds left out, for want of time", flush=True)
                break
            began = monotonic()
            for entry in entries:
                _take_turn(context, entry)
            print(f"  round {number + 1}", flush=True)
    for entry in entries:
        context.report.add("peers", entry.row())
    _print(context)


def _print(context: Context) -> None:
    context.report.print_table(
        "peers",
        "peers: one worker process, jobs that do nothing, history kept",
        [
            "queue", "version", "jobs/s", "single enqueues/s", "bulk enqueues/s", "p50 ms",
            "p99 ms", "settings", "problem",
        ],
    )  # fmt: skip
    _summarise(context.report.results["peers"])


def _summarise(rows: Sequence[dict[str, Any]]) -> None:
    ours, others = rows[: len(OURS)], rows[len(OURS) :]
    by_defaults = ours[0]
    best = max(ours, key=lambda row: row.get("jobs/s") or 0.0)
    shown = [
        [
            row["queue"],
            _times(best, row, "jobs/s"),
            *(_times(by_defaults, row, name) for name in ("jobs/s", "single enqueues/s")),
            *(_times(row, by_defaults, name) for name in ("p50 ms", "p99 ms")),
        ]
        for row in others
    ]
    columns = [
        "queue", "jobs/s at our best", "jobs/s", "single enqueues/s", "latency p50",
        "latency p99",
    ]  # fmt: skip
    print_rows(
        "summary: how many times better ours is than each, by its defaults where nothing else "
        "is said",
        columns,
        shown,
    )


def _times(more: dict[str, Any], less: dict[str, Any], name: str) -> str:
    if not more.get(name) or not less.get(name):
        return "–"
    return f"{more[name] / less[name]:.2f} ×"


def _begin(stack: ExitStack, context: Context, peer: Peer, python: str) -> Entry:
    entry = Entry(peer=peer)
    try:
        interpreter = Path(sys.executable) if peer.is_ours else environment(peer, python)
        name = "".join(letter if letter.isalpha() else "_" for letter in peer.name)
        url = stack.enter_context(database(context.server_url, f"peer_{name}"))
        directory = stack.enter_context(TemporaryDirectory())
        program = Program(peer, interpreter, url, Path(directory) / "waits")
        program.run("setup")
        entry.version = "–" if peer.is_ours else version(peer, interpreter)
        entry.program = program
    except (Unavailable, psycopg.Error) as error:
        entry.problem = str(error).splitlines()[0]
    return entry


def _take_turn(context: Context, entry: Entry) -> None:
    program = entry.program
    if program is None or entry.problem:
        return
    try:
        entry.add(_throughput(context, program))
        entry.waits += _latency(context, program)
        entry.add({"single enqueues/s": float(program.run("single", str(context.pick(4, 2))))})
    except (Unavailable, psycopg.Error) as error:
        entry.problem = str(error).splitlines()[0]


def _throughput(context: Context, program: Program) -> dict[str, float]:
    jobs = context.pick(program.peer.jobs, 4_000)
    with psycopg.connect(program.url, autocommit=True) as connection:
        _discard(connection)
        filled = float(program.run("fill", str(jobs)))
        connection.execute("VACUUM ANALYZE")
        with _worker(program) as child:
            rate = _rate(connection, program.peer.left, child, at_most=context.pick(30.0, 12.0))
        # What is left would delay the jobs whose latency is measured.
        _discard(connection)
    return {"jobs/s": rate, "bulk enqueues/s": filled}


def _worker(program: Program) -> Any:
    return running(
        program.command("work"), environment=program.variables, output=subprocess.DEVNULL
    )


def _rate(
    connection: psycopg.Connection[Any],
    left_sql: str,
    child: subprocess.Popen[str],
    *,
    at_most: float,
) -> float:
    """Return the jobs a second from the first seen finished to the last."""
    first = left = _count(connection, left_sql)
    total, started_at, until = left, None, monotonic() + at_most
    now, pause = monotonic(), _SHORTEST_PAUSE
    while left and now < until:
        if child.poll() is not None:
            raise Unavailable(f"its worker ended with {child.returncode}")
        sleep(pause)
        left, now = _count(connection, left_sql), monotonic()
        if started_at is None and left < total:
            started_at, first = now, left
        elif started_at is not None and left < first:
            # To count takes as long as hundreds of jobs do: not more often than it needs.
            remaining = left * (now - started_at) / (first - left)
            pause = min(max(_SHORTEST_PAUSE, remaining / 2), _LONGEST_PAUSE)
    if started_at is None:
        raise Unavailable(f"its worker finished nothing in {at_most:.0f} s")
    return (first - left) / (now - started_at) if now > started_at else 0.0


def _count(connection: psycopg.Connection[Any], sql: str) -> int:
    ((count,),) = connection.execute(sql).fetchall()
    return int(count)


def _discard(connection: psycopg.Connection[Any]) -> None:
    """Empty every table that holds jobs, whatever it is called."""
    cursor = connection.execute(
        "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
        "WHERE schemaname = 'public' AND tablename ~ "
        "'(procrastinate_jobs|procrastinate_events|pgqueuer|oban_jobs|chancy_jobs|dbtaskresult"
        "|oxtask|dj_queue_(jobs|.*_executions)|jobs_active)$'"
    )
    tables = [table for (table,) in cursor.fetchall()]
    connection.execute(f"TRUNCATE {', '.join(tables)} CASCADE")


def _latency(context: Context, program: Program) -> list[float]:
    """Return the milliseconds that jobs waited for an idle worker."""
    count = context.pick(100, 15)
    program.waits.unlink(missing_ok=True)
    with _worker(program):
        sleep(4)
        program.run("send", str(count))
        sleep(2)
    waits = [wait * 1000 for wait in read_waits(program.waits)]
    if len(waits) < count:
        raise Unavailable(f"ran {len(waits)} of {count} jobs sent to an idle worker")
    return waits
