"""procrastinate: asynchronous jobs, several at a time, LISTEN, history kept."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from procrastinate import App, PsycopgConnector

from ..probe import note_start
from .driving import drive_async, url

CONCURRENCY = 30
BATCH = 1_000

app = App(connector=PsycopgConnector(conninfo=url(), min_size=4, max_size=20))


@app.task(name="nothing")
async def nothing() -> None:
    """Do nothing."""


@app.task(name="stamp")
async def stamp(sent_at: float) -> None:
    """Note how long the job waited."""
    note_start(sent_at)


class Procrastinate:
    """Its own connector with a pool."""

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the pool."""
        return app.open_async()

    async def setup(self) -> None:
        """Make the tables."""
        await app.schema_manager.apply_schema_async()

    async def fill(self, count: int) -> None:
        """Defer in batches."""
        for start in range(0, count, BATCH):
            await nothing.batch_defer_async(*[{}] * min(BATCH, count - start))

    async def work(self) -> None:
        """Run the worker."""
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY)

    async def nothing(self) -> None:
        """Defer one."""
        await nothing.defer_async()

    async def stamp(self, sent_at: float) -> None:
        """Defer one."""
        await stamp.defer_async(sent_at=sent_at)


if __name__ == "__main__":
    asyncio.run(drive_async(Procrastinate()))
