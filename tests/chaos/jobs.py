"""What jobs do in chaos.

Whether one of them misbehaves depends on its claim, not on chance: a first claim does, a later
one mostly does not, so that jobs come to an end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from datetime import timedelta
from time import monotonic

from django.db import connection

from django_pgjobs import Cancel, JobContext, Retry, Snooze, job
from tests.ledger import VARIABLE, note

#: Looks for the next claim, until which a process is stopped; there are four in a second.
LOOKS_AT_MOST = int(os.environ.get("PGJOBS_CHAOS_LOOKS", "32"))

#: Stops process $1 until the line $2 is in the ledger $3, or until it has looked $4 times.
STOP = """
kill -STOP "$1"
left=$4
until grep -q "$2" "$3" || test "$left" -le 0; do sleep 0.25; left=$((left - 1)); done
kill -CONT "$1"
"""


class Broken(Exception):
    """What handlers raise."""


@job(max_attempts=6)
def quick(context: JobContext, token: str) -> str:
    """Do nothing much."""
    note(context, "start")
    note(context, "end")
    return token


@job(max_attempts=6)
async def quick_async(context: JobContext, token: str) -> None:
    """Do nothing much, in a coroutine."""
    note(context, "start")
    await asyncio.sleep(0.01)
    note(context, "end")


@job(max_attempts=6)
async def slow_async(context: JobContext, token: str) -> None:
    """Take long in a coroutine, beside others."""
    note(context, "start")
    await asyncio.sleep(1.0)
    note(context, "end")


@job(max_attempts=6, pool="processes")
def computed(context: JobContext, token: str) -> str:
    """Do nothing much, in a process of its own."""
    note(context, "start")
    note(context, "end")
    return token


@job(max_attempts=6, pool="processes")
def exits_alone(context: JobContext, token: str) -> None:
    """Take down only its own process at first."""
    note(context, "start")
    if context.claims == 1:
        os._exit(3)
    note(context, "end")


@job(max_attempts=6, pool="processes", timeout=timedelta(seconds=0.5))
def hangs_alone(context: JobContext, token: str) -> None:
    """Hang where nothing but a kill helps, at first."""
    note(context, "start")
    if context.claims == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.read(os.pipe()[0], 1)
    note(context, "end")


@job(max_attempts=6, pool="processes", atomic=True)
def transfer_alone(context: JobContext, token: str) -> None:
    """Have an effect, once, in a process of its own that dies at first."""
    note(context, "start")
    have_effect(context, token)
    if context.claims == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note(context, "end")


@job(max_attempts=6)
def slow(context: JobContext, token: str) -> None:
    """Take long, and give up when the lease is lost."""
    note(context, "start")
    work(context, 1.5)
    note(context, "end")


@job(max_attempts=6)
def stubborn(context: JobContext, token: str) -> None:
    """Take long, and hear nothing."""
    note(context, "start")
    threading.Event().wait(0.7)
    note(context, "end")


@job(max_attempts=6, timeout=timedelta(seconds=0.3))
def late(context: JobContext, token: str) -> None:
    """Take too long at first."""
    note(context, "start")
    if context.claims == 1:
        for _ in range(1000):
            threading.Event().wait(0.01)
    note(context, "end")


@job(max_attempts=6)
def flaky(context: JobContext, token: str) -> None:
    """Fail at first."""
    note(context, "start")
    if context.attempt == 1:
        raise Retry("At first it fails.", delay=timedelta(seconds=0.1))
    note(context, "end")


@job(max_attempts=2)
def broken(context: JobContext, token: str) -> None:
    """Fail always."""
    note(context, "start")
    raise Broken("It always fails.")


@job
def unwanted(context: JobContext, token: str) -> None:
    """Find that nobody needs it."""
    note(context, "start")
    raise Cancel("Nobody needs it.")


@job(max_attempts=6)
def sleepy(context: JobContext, token: str) -> None:
    """Come back twice, uncounted."""
    note(context, "start")
    if context.claims < 3:
        raise Snooze(timedelta(seconds=0.2))
    note(context, "end")


@job(max_attempts=2)
def exits(context: JobContext, token: str) -> None:
    """Take the process down at first, as a bug in a library does."""
    note(context, "start")
    if context.claims == 1:
        os._exit(3)
    note(context, "end")


@job(max_attempts=2)
def killed(context: JobContext, token: str) -> None:
    """Take the process down always, as running out of memory does."""
    note(context, "start")
    os.kill(os.getpid(), signal.SIGKILL)


@job(max_attempts=6)
def zombie(context: JobContext, token: str) -> None:
    """Sleep past the lease with all of the process, then succeed while another one runs it."""
    note(context, "start")
    if context.claims == 1:
        stop_own_process(context)
    else:
        work(context, 3.0)
    note(context, "end")


@job(max_attempts=6, atomic=True)
def transfer(context: JobContext, token: str) -> None:
    """Have an effect, once."""
    note(context, "start")
    have_effect(context, token)
    note(context, "end")


@job(max_attempts=6, atomic=True)
def transfer_slowly(context: JobContext, token: str) -> None:
    """Have an effect, once, and take long to commit."""
    note(context, "start")
    have_effect(context, token)
    threading.Event().wait(0.5)
    note(context, "end")


@job(max_attempts=6, atomic=True)
def transfer_badly(context: JobContext, token: str) -> None:
    """Have an effect, once, after a failure and a death."""
    note(context, "start")
    have_effect(context, token)
    if context.claims == 1:
        raise Broken("At first it fails.")
    if context.claims == 2:
        os._exit(3)
    note(context, "end")


@job(max_attempts=6, atomic=True)
def transfer_as_zombie(context: JobContext, token: str) -> None:
    """Have an effect, once, though the first owner comes back when it has lost the lease."""
    note(context, "start")
    have_effect(context, token)
    if context.claims == 1:
        stop_own_process(context)
    note(context, "end")


@job
def paced(context: JobContext, milliseconds: int) -> None:
    """Take a given time."""
    note(context, "start")
    threading.Event().wait(milliseconds / 1000)
    note(context, "end")


@job(max_attempts=6)
def tick(context: JobContext) -> None:
    """Be fired by a schedule."""
    note(context, "start")
    note(context, "end")


def work(context: JobContext, seconds: float) -> None:
    """Return after so many seconds, unless the job is not wanted any more."""
    ends_at = monotonic() + seconds
    while monotonic() < ends_at:
        if context.is_cancelled:
            raise Broken("The lease was lost, or the job cancelled.")
        threading.Event().wait(0.02)


def stop_own_process(context: JobContext) -> None:
    """Stop this process, as a paused machine does, until somebody else has the job."""
    following = f"^start {context.id} {context.claims + 1} "
    arguments = [str(os.getpid()), following, os.environ[VARIABLE], str(LOOKS_AT_MOST)]
    subprocess.run(["sh", "-c", STOP, "stop", *arguments], check=False)


def have_effect(context: JobContext, token: str) -> None:
    """Write a row in the transaction of the job."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO chaos_effects (job_id, claim, token) VALUES (%s, %s, %s)",
            [context.id, context.claims, token],
        )
