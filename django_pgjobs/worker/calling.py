"""Call a handler: in a thread, or in an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable
from datetime import timedelta
from inspect import isawaitable
from typing import Any, Final, NoReturn

from asgiref.sync import async_to_sync

from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..exceptions import JobTimeout


class _Copying:
    """Counts the copies that this process is the last of.

    To ask for the number of the process would tell, too, and take a system call before and after
    each handler.
    """

    def __init__(self) -> None:
        self.copies = 0
        os.register_at_fork(after_in_child=self._note_copy)

    def _note_copy(self) -> None:
        self.copies += 1


_copying: Final = _Copying()


def call(definition: JobDefinition, context: JobContext) -> Any:
    """Call a handler in this thread; return what it returns.

    A coroutine function runs in an event loop of its own, which also watches its timeout: this
    thread waits for it in a lock, out of reach of any exception.

    Raises:
        BaseException: what the handler raises.
    """
    if definition.is_async:
        return async_to_sync(acall)(definition, context)
    before = _copying.copies
    try:
        if definition.takes_context:
            result = definition.function(context, **context.arguments)
        else:
            result = definition.function(**context.arguments)
    finally:
        if _copying.copies != before:
            _end_copy()
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
    before = _copying.copies
    try:
        if definition.timeout is None:
            return await _begin(definition, context)
        return await _begin_in_time(definition, context, definition.timeout)
    finally:
        if _copying.copies != before:
            _end_copy()


async def _begin_in_time(
    definition: JobDefinition, context: JobContext, timeout: timedelta
) -> Any:
    limit = asyncio.timeout(timeout.total_seconds())
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


def _end_copy() -> NoReturn:
    """End this process, a copy of the worker that a handler has made by fork and returned in.

    It has one thread of the worker and copies of all its connections. What comes after a handler
    would be sent to the server on those, in the middle of what the worker says there; then the
    copy would wait for work for ever, and keep the connections open when the worker is gone.
    """
    error = sys.exc_info()[1]
    # As the interpreter does, for a program that ends itself in the usual way.
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    os._exit(code if isinstance(code, int) else int(code is not None))
