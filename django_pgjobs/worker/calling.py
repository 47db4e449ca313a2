"""Call a handler: in a thread, or in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any

from asgiref.sync import async_to_sync

from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..exceptions import JobTimeout


def call(definition: JobDefinition, context: JobContext) -> Any:
    """Call a handler in this thread; return what it returns.

    A coroutine function runs in an event loop of its own, which also watches its timeout: this
    thread waits for it in a lock, out of reach of any exception.

    Raises:
        BaseException: what the handler raises.
    """
    if definition.is_async:
        return async_to_sync(acall)(definition, context)
    if definition.takes_context:
        result = definition.function(context, **context.arguments)
    else:
        result = definition.function(**context.arguments)
    # A decorator may have made a plain function of a coroutine function.
    if result is not None and isawaitable(result):
        return async_to_sync(_await)(result)
    return result


async def acall(definition: JobDefinition, context: JobContext) -> Any:
    """Call a coroutine function in this event loop; return what it returns.

    At its timeout it is cancelled. JobTimeout takes the place of CancelledError only here,
    outside of the handler: task groups and others inside would not end what they have started if
    anything else were raised where they wait.

    Raises:
        JobTimeout: the handler was cancelled at its timeout.
        BaseException: what the handler raises.
    """
    if definition.timeout is None:
        return await _begin(definition, context)
    limit = asyncio.timeout(definition.timeout.total_seconds())
    try:
        async with limit:
            return await _begin(definition, context)
    except TimeoutError as error:
        if not limit.expired() or error.__cause__ is None:
            raise
        # Of the frames in which it was cancelled, so that the place is on record.
        raise JobTimeout().with_traceback(error.__cause__.__traceback__) from None


def _begin(definition: JobDefinition, context: JobContext) -> Awaitable[Any]:
    result: Awaitable[Any]
    if definition.takes_context:
        result = definition.function(context, **context.arguments)
    else:
        result = definition.function(**context.arguments)
    return result


async def _await(result: Awaitable[Any]) -> Any:
    return await result
