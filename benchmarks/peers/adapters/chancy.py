"""Chancy: the asyncio executor, eager polling, finished jobs kept."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from chancy import Chancy as Application
from chancy import Queue, Worker

from .chancy_jobs import nothing, stamp
from .driving import drive_async, url

CONCURRENCY = 100
BATCH = 1_000

# It logs every job at INFO.
quiet = logging.getLogger("chancy.benchmark")
quiet.setLevel(logging.ERROR)

application = Application(url(), log=quiet)
queue = Queue(
    "default",
    concurrency=CONCURRENCY,
    executor=Application.Executor.Async,
    polling_interval=1,
    eager_polling=True,
)


class Chancy:
    """Its own pool."""

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the pool."""
        return application

    async def setup(self) -> None:
        """Make the tables and the queue."""
        await application.migrate()
        await application.declare(queue, upsert=True)

    async def fill(self, count: int) -> None:
        """Push in batches."""
        jobs = [nothing.job for _ in range(BATCH)]
        for _ in range(0, count, BATCH):
            async for _ in application.push_many(jobs, batch_size=BATCH):
                pass

    async def work(self) -> None:
        """Run the worker."""
        async with application, Worker(application) as worker:
            await worker.wait_for_shutdown()

    async def nothing(self) -> None:
        """Push one."""
        await application.push(nothing)

    async def stamp(self, sent_at: float) -> None:
        """Push one."""
        await application.push(stamp.job.with_kwargs(sent_at=sent_at))


if __name__ == "__main__":
    asyncio.run(drive_async(Chancy()))
