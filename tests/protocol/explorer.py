"""Every order in which two or three connections can take their steps.

Stateless model checking on a real server: an operation is a transaction on a connection of
its own that stops at its pauses and before its commit. A schedule is a list of choices:
which operation takes the next step. The explorer runs schedules depth first; its
continuation beyond a chosen prefix and its choice of the next prefix are random, so that a
run that is cut short is a fair sample. A seed makes it repeatable.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.fix_database import TIMEOUT, empty_rows
from tests.invariants import check_invariants

from .pauses import FUNCTION, paused, use_statements

#: More than the pauses of any operation.
MOST_PAUSES = 16

#: How likely an operation takes the next step too, where the schedule leaves it open.
STEADINESS = 0.6

Statement = Callable[[psycopg.Connection, dict[str, Any]], Any]


@dataclass(frozen=True)
class Operation:
    """Statements of one connection.

    Attributes:
        name: in traces and results.
        statements: each gets the connection and what the scenario has set up.
        is_atomic: they are one transaction; otherwise each is one.
    """

    name: str
    statements: Sequence[Statement]
    is_atomic: bool = True


@dataclass(frozen=True)
class Scenario:
    """Operations that meet on some rows.

    Attributes:
        name: of the scenario.
        prepare: writes the rows and returns what the operations need to know.
        operations: two or three.
        check: raises AssertionError when the results or the tables are wrong.
    """

    name: str
    prepare: Callable[[psycopg.Connection], dict[str, Any]]
    operations: Sequence[Operation]
    check: Callable[[psycopg.Connection, dict[str, Any], dict[str, Any]], None]

    def __str__(self) -> str:
        return self.name


@dataclass
class Report:
    """What the schedules of a scenario showed."""

    schedules: int = 0
    is_exhausted: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[list[str], str]] = field(default_factory=list)


@contextmanager
def replaced_statements(statement: Callable[[str], str]) -> Iterator[None]:
    """Let the store execute what ``statement`` returns for a name."""
    original = use_statements(statement)
    try:
        yield
    finally:
        use_statements(original)


class Runner(threading.Thread):
    """Runs one operation; stops before its commit until it is let go."""

    def __init__(self, number: int, connection: psycopg.Connection, env: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.connection = connection
        self.env = env
        self.pauses = 0
        self.state = "new"
        self.result: Any = None
        self.broken: Exception | None = None
        self.operation: Operation
        self._go = threading.Event()

    def run(self) -> None:
        """Run the statements; an error of the server is the result."""
        try:
            self._run()
        except (LookupError, psycopg.ProgrammingError) as error:
            # A piece of a statement is not where a pause or a mutation expects it, or what they
            # made of it is no SQL: that shows nothing.
            self.broken = error
        except psycopg.Error as error:
            self.result = f"{type(error).__name__} {error.sqlstate}"
        self.state = "done"

    def _run(self) -> None:
        last = len(self.operation.statements) - 1
        if self.operation.is_atomic:
            with self.connection.transaction():
                for statement in self.operation.statements:
                    self.result = statement(self.connection, self.env)
                    self._boundary()
            return
        for index, statement in enumerate(self.operation.statements):
            self.result = statement(self.connection, self.env)
            if index < last:
                self._boundary()

    def _boundary(self) -> None:
        self._go.clear()
        self.state = "boundary"
        if not self._go.wait(TIMEOUT):
            raise TimeoutError("Nobody let the operation go on.")

    def release(self) -> None:
        """Let it go on from a boundary."""
        self.state = "running"
        self._go.set()


class Explorer:
    """Runs the schedules of scenarios on its own connections.

    Args:
        conninfo: of the test database.
        seed: of all choices.
        mutations: changes of statements, by name.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        seed: int = 1,
        mutations: dict[str, list[tuple[str, str]]] | None = None,
    ) -> None:
        self._random = random.Random(seed)
        self._mutations = mutations or {}
        self._control = psycopg.connect(conninfo, autocommit=True)
        self._control.execute(FUNCTION)
        self._connections = [psycopg.connect(conninfo, autocommit=True) for _ in range(3)]
        for number, connection in enumerate(self._connections, start=1):
            connection.execute("SET deadlock_timeout = '300ms'")
            connection.execute("SELECT set_config('protocol.operation', %s, false)", [str(number)])

    def close(self) -> None:
        """Close all connections."""
        for connection in (self._control, *self._connections):
            connection.close()

    def explore(self, scenario: Scenario, *, limit: int, stop_at_failure: bool = False) -> Report:
        """Run up to ``limit`` schedules of ``scenario``.

        Raises:
            LookupError: a statement does not have what a pause or a mutation changes.
            psycopg.ProgrammingError: what they have made of it cannot be executed.
        """
        report, frontier = Report(), [[]]
        with replaced_statements(self._statement):
            while frontier and report.schedules < limit:
                prefix = frontier.pop(self._random.randrange(len(frontier)))
                choices = self._run(scenario, prefix, report)
                for index in range(len(prefix), len(choices)):
                    taken, runnable = choices[index]
                    start = [choice for choice, _ in choices[:index]]
                    frontier += [[*start, other] for other in runnable if other != taken]
                if report.failures and stop_at_failure:
                    return report
        report.is_exhausted = not frontier
        return report

    def _statement(self, name: str) -> str:
        return paused(name, self._mutations.get(name, []))

    def _run(self, scenario: Scenario, prefix: list[int], report: Report) -> list[Any]:
        empty_rows(self._control)
        env = scenario.prepare(self._control)
        runners = []
        for number, operation in enumerate(scenario.operations, start=1):
            connection = self._connections[number - 1]
            connection.execute("SELECT set_config('protocol.number', '0', false)")
            runner = Runner(number, connection, env)
            runner.operation = operation
            runners.append(runner)
        self._control.execute(
            "SELECT pg_advisory_lock(operation, number) "
            "FROM generate_series(1, %s) AS operation, generate_series(1, %s) AS number",
            [len(runners), MOST_PAUSES],
        )
        trace, choices = self._interleave(runners, prefix)
        self._control.execute("SELECT pg_advisory_unlock_all()")
        for runner in runners:
            if runner.broken is not None:
                raise runner.broken
        results = {runner.operation.name: runner.result for runner in runners}
        report.schedules += 1
        report.outcomes[str(sorted(results.items(), key=str))] += 1
        problem = self._problem(scenario, env, results)
        if problem:
            report.failures.append((trace, problem))
        return choices

    def _interleave(
        self, runners: list[Runner], prefix: list[int]
    ) -> tuple[list[str], list[tuple[int, list[int]]]]:
        trace: list[str] = []
        choices: list[tuple[int, list[int]]] = []
        states = ["new"] * len(runners)
        deadline = time.monotonic() + TIMEOUT
        while any(state != "done" for state in states):
            for index, runner in enumerate(runners):
                # Somebody's commit may have set it free.
                if states[index] == "blocked":
                    states[index] = self._settled(runner)
            runnable = [i for i, state in enumerate(states) if state not in {"blocked", "done"}]
            if not runnable:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Nobody can go on: {states} after {trace}")
                continue
            wanted = prefix[len(choices)] if len(choices) < len(prefix) else None
            pick = wanted if wanted in runnable else self._choice(choices, runnable)
            choices.append((pick, runnable))
            trace.append(f"{runners[pick].operation.name} from {states[pick]}")
            states[pick] = self._step(runners[pick], states[pick])
        return trace, choices

    def _choice(self, choices: list[tuple[int, list[int]]], runnable: list[int]) -> int:
        """Return who goes on: mostly who went last, since few mistakes need many changes."""
        last = choices[-1][0] if choices else None
        if last in runnable and self._random.random() < STEADINESS:
            return last
        return self._random.choice(runnable)

    def _step(self, runner: Runner, state: str) -> str:
        if state == "new":
            runner.state = "running"
            runner.start()
        elif state == "boundary":
            runner.release()
        else:
            runner.pauses += 1
            self._control.execute(
                "SELECT pg_advisory_unlock(%s, %s)", [runner.number, runner.pauses]
            )
        return self._settled(runner)

    def _settled(self, runner: Runner) -> str:
        """Wait until an operation has stopped: paused, blocked, at a boundary or done."""
        tick, deadline, waits = threading.Event(), time.monotonic() + TIMEOUT, 0
        own = ("advisory", runner.number, runner.pauses + 1)
        while time.monotonic() < deadline:
            if runner.state in {"boundary", "done"}:
                return runner.state
            lock = self._control.execute(
                "SELECT locktype, classid::bigint, objid::bigint FROM pg_locks "
                "WHERE pid = %s AND NOT granted",
                [runner.connection.info.backend_pid],
            ).fetchone()
            if lock == own:
                return "paused"
            # A lock that is only waited for in passing is not yet a block.
            waits += lock is not None
            if waits > 2:
                return "blocked"
            tick.wait(0.0005)
        raise TimeoutError(f"{runner.operation.name} neither stops nor ends.")

    def _problem(
        self, scenario: Scenario, env: dict[str, Any], results: dict[str, Any]
    ) -> str | None:
        for result in results.values():
            if isinstance(result, str):
                return f"error: {results}"
        violations = check_invariants(self._control)
        if violations:
            return f"invariants: {violations}"
        try:
            scenario.check(self._control, env, results)
        except AssertionError as error:
            return f"oracle: {error}"
        return None
