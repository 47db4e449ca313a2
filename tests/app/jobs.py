"""Jobs for tests: one for each thing that a handler can do. Imported by autodiscovery."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgjobs import Cancel, JobContext, Retry, Snooze, job


class Broken(Exception):
    """What the failing handlers raise."""


@job(name="tests.noop")
def noop() -> None:
    """Do nothing."""


@job(name="tests.echo")
def echo(value: Any = None) -> Any:
    """Return what it was given."""
    return value


@job(name="tests.echo_async")
async def echo_async(value: Any = None) -> Any:
    """Return what it was given, from a coroutine."""
    return value


@job(name="tests.add")
def add(left: int, right: int = 1) -> int:
    """Return a sum."""
    return left + right


@job(name="tests.collect")
def collect(**options: Any) -> dict[str, Any]:
    """Return its arguments, whatever they are called."""
    return options


@job(name="tests.describe")
def describe(context: JobContext, note: str = "") -> dict[str, Any]:
    """Return what it knows about its attempt."""
    return {"id": context.id, "attempt": context.attempt, "note": note}


@job(name="tests.describe_async")
async def describe_async(context: JobContext) -> int:
    """Return its attempt, from a coroutine."""
    return context.attempt


@job(name="tests.fail", max_attempts=2)
def fail(message: str = "no") -> None:
    """Raise."""
    raise Broken(message)


@job(name="tests.fail_once", max_attempts=2)
def fail_once(context: JobContext) -> str:
    """Raise at the first attempt and succeed at the second."""
    if context.attempt == 1:
        raise Broken("The first attempt fails.")
    return "done"


@job(name="tests.retry", max_attempts=3)
def retry(seconds: int = 60) -> None:
    """Ask for another attempt."""
    raise Retry("Not yet.", delay=timedelta(seconds=seconds))


@job(name="tests.snooze")
def snooze(seconds: int = 60) -> None:
    """Ask to run later."""
    raise Snooze(timedelta(seconds=seconds))


@job(name="tests.cancel")
def cancel(reason: str = "Not needed.") -> None:
    """End as cancelled."""
    raise Cancel(reason)


@job(name="tests.send", queue="mail", priority=5, max_attempts=7, payload_version=2)
def send(address: str, *, subject: str = "") -> str:
    """Have every option of a declaration."""
    return f"{address}: {subject}"
