"""The threads in which handlers of an event loop use Django's ORM.

Django's connections belong to threads, so its async methods run in a thread that asgiref chooses:
by default one for the whole process, in which everything waits for everything else; in a
``ThreadSensitiveContext`` one of its own, and with it a connection of its own. A context for each
job would open and close a connection for each job, as many at a time as there are jobs. Here a
few contexts live as long as the worker, and jobs share them.
See https://docs.djangoproject.com/en/stable/topics/async/#async-safety
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..hygiene import clean_connections, close_connections, needs_cleaning


class Lane:
    """A thread for the ORM of some jobs, and the context that leads there.

    Between two calls that one handler makes, others of the same lane have theirs: a transaction
    must begin and end within one call.

    To be used in the event loop only.
    """

    def __init__(self) -> None:
        self._context = Context()
        # It comes without types.
        self._sensitive: Any = ThreadSensitiveContext()
        self._connections: list[BaseDatabaseWrapper] = []
        self._cleaning: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the thread. Connects to nothing."""
        await _run_in(self._context, self._sensitive.__aenter__())
        # Of this very thread, so that the loop can see how they are.
        self._connections = await self._call(_all_connections)

    def context_of_job(self) -> Context:
        """Return a new context, in which nothing is set but the way to the thread."""
        return self._context.copy()

    def clean_if_needed(self) -> None:
        """Leave nothing of a handler that has ended on the connections, without waiting."""
        if self._cleaning is None and any(map(needs_cleaning, self._connections)):
            self._cleaning = asyncio.ensure_future(self._clean())

    async def close(self) -> None:
        """Close the connections and end the thread."""
        await self._call(close_connections)
        await _run_in(self._context, self._sensitive.__aexit__(None, None, None))

    async def _clean(self) -> None:
        try:
            await self._call(clean_connections)
        finally:
            self._cleaning = None

    async def _call(self, function: Callable[[], Any]) -> Any:
        return await _run_in(self._context.copy(), sync_to_async(function)())


class ClosingExecutor(ThreadPoolExecutor):
    """The threads of ``asyncio.to_thread``: no connection stays open in them after a call."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run ``function`` in a thread."""
        return super().submit(_call_and_close, function, *args, **kwargs)


def _call_and_close(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    finally:
        close_connections()


def _all_connections() -> list[BaseDatabaseWrapper]:
    return list(connections.all())


async def _run_in(context: Context, coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.get_running_loop().create_task(coroutine, context=context)
