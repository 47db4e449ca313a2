"""PgQueuer: asyncpg and uvloop, batches of 500, log kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import asyncpg
import uvloop
from pgqueuer import PgQueuer as Application
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from ..probe import note_start
from .driving import drive_async, url

# Of 100 and 500, the faster by a tenth.
BATCH = 500


class PgQueuer:
    """The asyncpg driver of its README."""

    queries: Queries

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open a connection."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(url())
        self.queries = Queries(AsyncpgDriver(connection))
        yield
        await connection.close()

    async def setup(self) -> None:
        """Make the tables."""
        await self.queries.install()

    async def fill(self, count: int) -> None:
        """Enqueue in batches."""
        for _ in range(0, count, 1_000):
            await self.queries.enqueue(["nothing"] * 1_000, [None] * 1_000, [0] * 1_000)

    async def work(self) -> None:
        """Run the manager."""
        application = Application(AsyncpgDriver(await asyncpg.connect(url())))

        @application.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            """Do nothing."""

        @application.entrypoint("stamp")
        async def stamp(job: Job) -> None:
            note_start(json.loads(job.payload or b"0"))

        await application.run(batch_size=BATCH)

    async def nothing(self) -> None:
        """Enqueue one."""
        await self.queries.enqueue("nothing", None)

    async def stamp(self, sent_at: float) -> None:
        """Enqueue one."""
        await self.queries.enqueue("stamp", json.dumps(sent_at).encode())


if __name__ == "__main__":
    uvloop.run(drive_async(PgQueuer()))
