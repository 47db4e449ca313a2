"""Jobs for the processes that the acceptance tests start. They keep a ledger."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic

from django.db import connection

from django_pgjobs import JobContext, job
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


@job(max_attempts=5)
def until_cancelled(context: JobContext) -> None:
    """Run until somebody asks to cancel the job."""
    note(context, "start")
    wait_until_true(lambda: context.is_cancelled, "the job was never cancelled")
    note(context, "end")


@job(max_attempts=2)
def kill_own_process(context: JobContext) -> None:
    """Take the worker down, as a segmentation fault would."""
    note(context, "start")
    os._exit(1)


@job(max_attempts=5)
async def gated_async(context: JobContext, gate: str) -> None:
    """Run until the file ``gate`` exists, from a coroutine."""
    note(context, "start")
    wait_for_gate(gate)
    note(context, "end")


@job(max_attempts=1, timeout=timedelta(seconds=0.2))
def stuck(context: JobContext, pipe: str) -> None:
    """Hang where no exception can be raised: in the kernel, until somebody opens the pipe."""
    note(context, "start")
    with open(pipe, "rb"):
        pass
    note(context, "end")


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
