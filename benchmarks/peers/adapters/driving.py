"""What each adapter's program does. Standard library only.

    python -m benchmarks.peers.adapters.NAME setup
    python -m benchmarks.peers.adapters.NAME fill COUNT         prints the jobs enqueued a second
    python -m benchmarks.peers.adapters.NAME work
    python -m benchmarks.peers.adapters.NAME single SECONDS     prints the jobs enqueued a second
    python -m benchmarks.peers.adapters.NAME send COUNT

The database is the one in ``DATABASE_URL``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Protocol

#: Seconds between two jobs sent to an idle worker: at random, so that they meet no rhythm.
_PAUSE = (0.2, 0.6)

#: Jobs enqueued before the rate counts.
_WARM_UP = 20


class Adapter(Protocol):
    """A queue with a synchronous interface."""

    def setup(self) -> None:
        """Make the tables."""

    def fill(self, count: int) -> None:
        """Enqueue jobs that do nothing, in bulk."""

    def work(self) -> None:
        """Run a worker until terminated."""

    def nothing(self) -> None:
        """Enqueue one job that does nothing, in a transaction of its own."""

    def stamp(self, sent_at: float) -> None:
        """Enqueue one job that notes how long it waited."""


class AsyncAdapter(Protocol):
    """A queue with an asynchronous interface; the same acts."""

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Hold connections for producing open."""
        ...

    async def setup(self) -> None: ...

    async def fill(self, count: int) -> None: ...

    async def work(self) -> None: ...

    async def nothing(self) -> None: ...

    async def stamp(self, sent_at: float) -> None: ...


def url() -> str:
    """Return the address of the database, in the form that all drivers know."""
    return os.environ["DATABASE_URL"].replace("postgres://", "postgresql://", 1)


def drive(adapter: Adapter) -> None:
    """Do what the command line says."""
    match sys.argv[1:]:
        case ["setup"]:
            adapter.setup()
        case ["fill", count]:
            began = time.perf_counter()
            adapter.fill(int(count))
            print(int(count) / (time.perf_counter() - began))
        case ["work"]:
            adapter.work()
        case ["single", seconds]:
            print(_single(adapter, float(seconds)))
        case ["send", count]:
            _send(adapter, int(count))


async def drive_async(adapter: AsyncAdapter) -> None:
    """Do what the command line says."""
    action, *arguments = sys.argv[1:]
    if action == "work":
        await adapter.work()
        return
    async with adapter.opened():
        match action, *arguments:
            case "setup", *_:
                await adapter.setup()
            case "fill", count:
                began = time.perf_counter()
                await adapter.fill(int(count))
                print(int(count) / (time.perf_counter() - began))
            case "single", seconds:
                print(await _single_async(adapter, float(seconds)))
            case "send", count:
                await _send_async(adapter, int(count))


def _single(adapter: Adapter, seconds: float) -> float:
    for _ in range(_WARM_UP):
        adapter.nothing()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        adapter.nothing()
        count += 1
    return count / (time.perf_counter() - began)


async def _single_async(adapter: AsyncAdapter, seconds: float) -> float:
    for _ in range(_WARM_UP):
        await adapter.nothing()
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        await adapter.nothing()
        count += 1
    return count / (time.perf_counter() - began)


def _send(adapter: Adapter, count: int) -> None:
    random = Random(1)
    # As in a process that serves requests, which has long been connected.
    adapter.nothing()
    time.sleep(max(_PAUSE))
    for _ in range(count):
        adapter.stamp(time.monotonic())
        time.sleep(random.uniform(*_PAUSE))


async def _send_async(adapter: AsyncAdapter, count: int) -> None:
    random = Random(1)
    await adapter.nothing()
    await asyncio.sleep(max(_PAUSE))
    for _ in range(count):
        await adapter.stamp(time.monotonic())
        await asyncio.sleep(random.uniform(*_PAUSE))
