"""Oban for Python: uvloop as its command uses, 100 jobs at a time, completed jobs kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvloop
from oban import Oban as Application
from oban import worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from ..probe import note_start
from .driving import drive_async, url

LIMIT = 100
BATCH = 1_000


@worker(queue="default")
class Nothing:
    """Does nothing."""

    async def process(self, job: object) -> None:
        """Do nothing."""


@worker(queue="default")
class Stamp:
    """Notes how long the job waited."""

    async def process(self, job: object) -> None:
        """Note it."""
        note_start(job.args["sent_at"])  # type: ignore[attr-defined]


class Oban:
    """A client without queues produces; one with queues works."""

    pool: AsyncConnectionPool
    client: Application

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the pool."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        self.pool = await Application.create_pool(url(), min_size=1, max_size=10)
        self.client = Application(pool=self.pool)
        yield
        await self.pool.close()

    async def setup(self) -> None:
        """Make the tables."""
        await install(self.pool)

    async def fill(self, count: int) -> None:
        """Enqueue in batches."""
        for _ in range(0, count, BATCH):
            await self.client.enqueue_many([Nothing.new({}) for _ in range(BATCH)])

    async def work(self) -> None:
        """Run until terminated."""
        pool = await Application.create_pool(url(), min_size=4, max_size=20)
        async with Application(pool=pool, queues={"default": LIMIT}):
            await asyncio.Event().wait()

    async def nothing(self) -> None:
        """Enqueue one."""
        await self.client.enqueue(Nothing.new({}))

    async def stamp(self, sent_at: float) -> None:
        """Enqueue one."""
        await self.client.enqueue(Stamp.new({"sent_at": sent_at}))


if __name__ == "__main__":
    uvloop.run(drive_async(Oban()))
