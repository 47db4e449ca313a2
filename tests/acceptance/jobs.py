"""Jobs for the processes that the acceptance tests start. They keep a ledger."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.dispatch import receiver

from django_pgjobs import Breaker, JobContext, Retry, Snooze, job
from django_pgjobs.signals import job_started, lease_lost
from tests.ledger import note

#: No handler waits longer for its gate, in seconds.
LONGEST = 60.0


@job
def quick(context: JobContext, number: int = 0) -> int:
    """Do nothing much."""
    note(context, "start")
    note(context, "end")
    return number


@job(max_attempts=5)
def gated(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists."""
    note(context, "start")
    wait_for_gate(gate)
    note(context, "end")


#: Longer than any test.
HOUR = timedelta(hours=1)


@job(max_attempts=5)
def put_off(context: JobContext, outcome: str) -> None:
    """Ask to run again in an hour: fail, or snooze."""
    note(context, "start")
    raise Snooze(HOUR) if outcome == "snooze" else Retry("not today", delay=HOUR)


@job(max_attempts=5)
def gated_in_transaction(context: JobContext, gate: str) -> None:
    """Run in one transaction until the file ``gate`` exists."""
    from django.db import transaction

    note(context, "start")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        wait_for_gate(gate)
    note(context, "end")


@job(max_attempts=5, atomic=True)
def gated_atomic(context: JobContext, gate: str) -> None:
    """Write a row in the job's own transaction, then run until the file ``gate`` exists."""
    note(context, "start")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO effects (job_id) VALUES (%s)", [context.id])
    wait_for_gate(gate)
    note(context, "end")


#: Where an atomic job can be when its worker or the server dies.
STEPS = ("before the handler", "in the handler", "before the record", "before the commit")


def pause_at(context: JobContext, step: str) -> None:
    """Wait for a file, if this is the first claim of the job of that step.

    Another file says that it waits, and from which port its thread reaches the server.
    """
    if context.claims == 1 and context.name.endswith(step):
        gate = Path(os.environ["PGJOBS_TEST_GATES"]) / f"{context.id}"
        gate.with_suffix(".waiting").write_text(str(own_port()))
        wait_for_gate(str(gate))


def own_port() -> int:
    """Return the port of this thread's connection; 0 if it has none."""
    if connection.connection is None:
        return 0
    descriptor = connection.connection.fileno()
    with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as own:
        port: int = own.getsockname()[1]
        return port


@receiver(job_started)
def pause_before_the_handler(*, context: JobContext, **kwargs: object) -> None:
    """Pause where the attempt has begun and its transaction has not."""
    pause_at(context, "before the handler")


def pausing(context: JobContext) -> Callable[..., Any]:
    """Return a wrapper of Django's that pauses around the record of the success."""
    is_recorded = False

    def execute(execute: Callable[..., Any], sql: Any, *args: Any) -> Any:
        nonlocal is_recorded
        if "pgjobs complete_jobs" in str(sql):
            pause_at(context, "before the record")
            is_recorded = True
        result = execute(sql, *args)
        if is_recorded and str(sql).startswith("RELEASE SAVEPOINT"):
            # The next that is sent is COMMIT.
            pause_at(context, "before the commit")
        return result

    return execute


def step_through(context: JobContext) -> None:
    """Write a row in the job's own transaction, pausing at one step of the way."""
    note(context, "start")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO effects (job_id, claim) VALUES (%s, %s)", [context.id, context.claims]
        )
    pause_at(context, "in the handler")
    # What it wraps comes after the handler.
    connection.execute_wrappers[:] = [pausing(context)]
    note(context, "end")


stepping = {
    step: job(name=f"tests.step {step}", max_attempts=5, atomic=True)(step_through)
    for step in STEPS
}


@job(max_attempts=5)
def until_cancelled(context: JobContext) -> None:
    """Run until somebody asks to cancel the job."""
    note(context, "start")
    wait_until_true(lambda: context.is_cancelled, "the job was never cancelled")
    note(context, "end")


@job(max_attempts=5)
def hog(context: JobContext, gate: str) -> None:
    """Compute until the file ``gate`` exists, and never wait for anything."""
    note(context, "start")
    deadline = monotonic() + LONGEST
    while not Path(gate).exists():
        assert monotonic() < deadline
        sum(number * number for number in range(200_000))
    note(context, "end")


@job
def ask_often() -> None:
    """Execute ten queries."""
    with connection.cursor() as cursor:
        for _ in range(10):
            cursor.execute("SELECT repeat('x', 100)")


@job(max_attempts=2)
def kill_own_process(context: JobContext) -> None:
    """Take the worker down, as a segmentation fault would."""
    note(context, "start")
    os._exit(1)


@job(max_attempts=5)
async def gated_async(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists, from a coroutine; tell of a cancellation in a file."""
    note(context, "start")
    try:
        await gate_is_open(gate)
    except asyncio.CancelledError:
        Path(f"{gate}.cancelled.{context.id}").touch()
        raise
    note(context, "end")


@job(max_attempts=5, pool="threads")
async def gated_async_in_thread(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists, in an event loop of its own."""
    note(context, "start")
    await gate_is_open(gate)
    note(context, "end")


@job
async def count_async(context: JobContext) -> int:
    """Ask the database something."""
    note(context, "start")
    count = await Group.objects.acount()
    note(context, "end")
    return count


@job(max_attempts=1, timeout=timedelta(seconds=0.2))
async def stubborn_async(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists, whatever anybody says."""
    note(context, "start")
    while True:
        try:
            await gate_is_open(gate)
            break
        except asyncio.CancelledError:
            continue
    note(context, "end")


@job(max_attempts=5)
async def blocking_async(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists, and let nothing else in the loop run."""
    note(context, "start")
    wait_for_gate(gate)
    note(context, "end")


@job(max_attempts=1)
async def exit_async(context: JobContext) -> None:
    """Try to end the process, from a task of its own too."""
    note(context, "start")

    async def leave() -> None:
        sys.exit(1)

    await asyncio.wait([asyncio.ensure_future(leave())])
    sys.exit(1)


@job(max_attempts=1, timeout=timedelta(seconds=0.2))
def stuck(context: JobContext, pipe: str) -> None:
    """Hang where no exception can be raised: in the kernel, until somebody opens the pipe."""
    note(context, "start")
    with open(pipe, "rb"):
        pass
    note(context, "end")


def _stall_once(context: JobContext, gate: str) -> None:
    """Get on for longer than a lease; then stand still, at the first attempt."""
    note(context, "start")
    until = monotonic() + 2
    while monotonic() < until:
        context.progress(monotonic(), message="moving")
        threading.Event().wait(0.01)
    while context.attempt == 1 and not Path(gate).exists():
        context.progress(until, message="standing")
        threading.Event().wait(0.01)
    note(context, "end")


@job(max_attempts=2, progress_timeout=timedelta(seconds=0.5))
def stall_in_thread(context: JobContext, gate: str) -> None:
    """Stand still in a thread."""
    _stall_once(context, gate)


@job(queue="apart", max_attempts=2, progress_timeout=timedelta(seconds=0.5), pool="processes")
def stall_in_process(context: JobContext, gate: str) -> None:
    """Stand still in a process."""
    _stall_once(context, gate)


@job(max_attempts=2, progress_timeout=timedelta(seconds=0.5))
async def stall_in_loop(context: JobContext, gate: str) -> None:
    """Stand still in the event loop."""
    await asyncio.to_thread(_stall_once, context, gate)


async def gate_is_open(gate: str) -> None:
    """Return when the file exists, and let others run meanwhile."""
    async with asyncio.timeout(LONGEST):
        # Seldom: when hundreds of them do, a worker has little time for anything else.
        while not Path(gate).exists():
            await asyncio.sleep(0.2)


def wait_for_gate(gate: str) -> None:
    """Return when the file exists."""
    wait_until_true(Path(gate).exists, f"the gate {gate} was never opened")


def wait_until_true(condition: Callable[[], bool], complaint: str) -> None:
    """Return when a condition holds."""
    tick, deadline = threading.Event(), monotonic() + LONGEST
    while not condition():
        if monotonic() > deadline:
            raise TimeoutError(complaint)
        tick.wait(0.01)


@receiver(lease_lost)
def hang_at_the_loss(**kwargs: object) -> None:
    """Hang until the file that the environment names exists, if it names one."""
    if "PGJOBS_TEST_HANG" in os.environ:
        wait_for_gate(os.environ["PGJOBS_TEST_HANG"])


@job(max_attempts=1)
def fork_and_return(context: JobContext) -> int:
    """Go on in two processes, and return the exit code of the second."""
    note(context, "start")
    return _exit_code_of(context, os.fork())


@job(max_attempts=1)
def fork_and_exit(context: JobContext) -> int:
    """Make a copy of the process, which exits, and return its exit code."""
    note(context, "start")
    return _exit_code_of(context, os.fork() or sys.exit(7))


@job(max_attempts=1)
async def fork_and_return_async(context: JobContext) -> int:
    """Go on in two processes with an event loop, and return the exit code of the second."""
    note(context, "start")
    return _exit_code_of(context, os.fork())


def _exit_code_of(context: JobContext, pid: int) -> int:
    if not pid:
        return 0
    exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    note(context, "end")
    return exit_code


@job
def stay_behind(context: JobContext) -> None:
    """Leave behind what keeps a process from ending."""
    forever = threading.Event()
    threading.Thread(target=forever.wait, daemon=False).start()
    atexit.register(forever.wait)
    note(context, "end")


@job(max_attempts=5)
async def break_loop(context: JobContext) -> None:
    """Close a descriptor that the event loop needs, at the first claim only."""
    note(context, "start")
    if context.claims == 1:
        os.close(asyncio.get_running_loop()._selector.fileno())  # type: ignore[attr-defined]
    note(context, "end")


# A queue of their own: what a worker has room for in one pool must not depend on another.
@job(queue="apart", pool="processes")
def quick_apart(context: JobContext, number: int = 0) -> int:
    """Do nothing much, in a process."""
    note(context, "start")
    note(context, "end")
    return number


@job(queue="apart", pool="processes", max_attempts=5)
def gated_apart(context: JobContext, gate: str) -> list[bool]:
    """Run in a process until the file ``gate`` exists; return what the context then says."""
    note(context, "start")
    wait_for_gate(gate)
    note(context, "end")
    return [context.is_stopping, context.is_cancelled]


@job(queue="apart", pool="processes")
def until_stopping(context: JobContext) -> bool:
    """Run in a process until the worker stops."""
    note(context, "start")
    tick, deadline = threading.Event(), monotonic() + LONGEST
    while not context.is_stopping and monotonic() < deadline:
        tick.wait(0.01)
    note(context, "end")
    return context.is_stopping


@job(queue="apart", pool="processes", max_attempts=2)
def crash_apart(context: JobContext, way: str) -> None:
    """Take the process down."""
    note(context, "start")
    if way == "exit":
        os._exit(7)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    dereference_null()


def dereference_null() -> None:
    """Read where nothing is."""
    ctypes.string_at(0)


@job(queue="apart", pool="processes", max_attempts=5)
def hold_interpreter(context: JobContext, gate: str) -> None:
    """Keep the interpreter's lock, in C, until the file ``gate`` exists."""
    note(context, "start")
    # PyDLL, and not CDLL: it does not let go of the lock.
    ctypes.PyDLL(None).system(f"while [ ! -e {gate} ]; do sleep 0.05; done".encode())
    note(context, "end")


@job(queue="apart", pool="processes", max_attempts=1, timeout=timedelta(seconds=0.2))
def never_end(context: JobContext, gate: str) -> None:
    """Hang in C, out of reach of any exception; a program it has started hangs too."""
    note(context, "start")
    subprocess.Popen(["/bin/sh", "-c", f"echo $$ > {gate}.pid; while :; do sleep 1; done"])
    ctypes.PyDLL(None).system(f"while [ ! -e {gate} ]; do sleep 0.05; done".encode())
    note(context, "end")


@job(queue="apart", pool="processes")
def until_cancelled_apart(context: JobContext) -> None:
    """Run until the context says that the job was cancelled."""
    note(context, "start")
    tick, deadline = threading.Event(), monotonic() + LONGEST
    while not context.is_cancelled and monotonic() < deadline:
        tick.wait(0.01)
    note(context, "end")


@job(queue="apart", pool="processes", max_attempts=1, timeout=timedelta(seconds=0.2))
def too_slow(context: JobContext) -> None:
    """Run too long, in Python."""
    note(context, "start")
    while True:
        pass


@job(queue="apart", pool="processes")
def leave_alarm(context: JobContext) -> None:
    """Leave behind what kills the process in a moment."""
    signal.setitimer(signal.ITIMER_REAL, ALARM_AFTER)


@job(queue="apart", pool="processes")
def outlive_alarm(context: JobContext) -> None:
    """Run for longer than that moment."""
    threading.Event().wait(2 * ALARM_AFTER)


#: Seconds; long enough for one job to end and the next to begin.
ALARM_AFTER = 1.0


@job(queue="apart", pool="processes")
def grow(context: JobContext, size: int) -> int:
    """Keep so many bytes for as long as the process lives."""
    note(context, "start")
    kept.append(bytes(b"x" * size))
    note(context, "end")
    return os.getpid()


kept: list[bytes] = []


@job(queue="apart", pool="processes")
def return_much(context: JobContext) -> str:
    """Return more than is kept."""
    note(context, "start")
    note(context, "end")
    return "x" * 1_000_000


@job(queue="apart", pool="processes", max_attempts=1)
def start_and_terminate(context: JobContext) -> int:
    """Stop a program that this handler has started; return its exit code."""
    note(context, "start")
    program = subprocess.Popen(["/bin/sleep", "600"])
    program.terminate()
    note(context, "end")
    return program.wait()


@job(queue="apart", pool="processes", max_attempts=1)
def fork_and_crash(context: JobContext, gate: str) -> None:
    """Die, and leave a copy of the process behind that lives until the file ``gate`` exists."""
    note(context, "start")
    if os.fork() == 0:
        Path(f"{gate}.pid").write_text(str(os.getpid()))
        wait_for_gate(gate)
        os._exit(0)
    wait_for_gate(f"{gate}.pid")
    os._exit(7)


class Unspeakable(Exception):
    """Nothing about it can be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class ForgetfulRetry(Retry):
    """Its __init__ does not call that of its base."""

    def __init__(self) -> None:
        pass


class Exiting(Exception):
    """Ends the thread that looks at it."""

    def __str__(self) -> str:
        raise SystemExit(3)


#: What handlers raise and return that is hard to write down.
HOSTILE = {
    "NUL": lambda: ValueError("a\x00b"),
    "surrogate": lambda: ValueError("\ud800"),
    "unspeakable": Unspeakable,
    "ten megabytes": lambda: ValueError("x" * 10_000_000),
    "exit": lambda: SystemExit(3),
    "forgetful": ForgetfulRetry,
    "exiting": Exiting,
    "not a number": lambda: float("nan"),
    "text with NUL": lambda: "a\x00b",
    "text with a surrogate": lambda: "\ud800",
    "much text": lambda: "x" * 10_000_000,
    "no JSON": object,
}


def be_hostile(context: JobContext, kind: str) -> Any:
    note(context, "start")
    value = HOSTILE[kind]()
    if isinstance(value, BaseException):
        raise value
    note(context, "end")
    return value


@job(max_attempts=1)
def hostile(context: JobContext, kind: str) -> Any:
    """Raise or return something hostile."""
    return be_hostile(context, kind)


@job(max_attempts=1)
async def hostile_async(context: JobContext, kind: str) -> Any:
    """Raise or return something hostile, in an event loop."""
    return be_hostile(context, kind)


@job(max_attempts=3)
def poison(context: JobContext, gate: str) -> None:
    """Kill the process when the file ``gate`` exists."""
    note(context, "start")
    wait_for_gate(gate)
    os._exit(1)


@job(max_attempts=2)
def bystander(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists; harm nobody."""
    note(context, "start")
    wait_for_gate(gate)
    note(context, "end")


@job(max_attempts=50, breaker=Breaker(name="their bank", minimum=5, cooldown=timedelta(seconds=1)))
def pay(context: JobContext, bank: str) -> None:
    """Fail until the file ``bank`` exists."""
    note(context, "start")
    if not Path(bank).exists():
        raise ConnectionError("The bank is closed.")
    note(context, "end")


class Hang(Exception):
    """Keeps the thread in which it is raised."""

    def __init__(self) -> None:
        """Hang until the file that the environment names exists."""
        wait_for_gate(os.environ["PGJOBS_TEST_HANG"])


@job(max_attempts=5)
def break_thread(context: JobContext, name: str, error: str) -> None:
    """Raise an error in the thread ``name`` of the worker, at the first claim only."""
    note(context, "start")
    if context.claims == 1:
        (thread,) = (each for each in threading.enumerate() if each.name == name)
        number = ctypes.c_ulong(thread.ident or 0)
        kind = ctypes.py_object(getattr(builtins, error, Hang))
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, kind)
    note(context, "end")
