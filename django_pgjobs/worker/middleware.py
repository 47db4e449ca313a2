"""The chain of middleware around every handler, made as Django makes its own.

::

    first ──> second ──> handler
          <──        <──

Each is made once, of what comes after it. Where one is of another colour than what comes after
it, an adapter of asgiref stands between them.
See https://docs.djangoproject.com/en/stable/topics/http/middleware/#asynchronous-support
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed

from ..definitions.context import JobContext
from ..definitions.middleware import Factory, GetResult, can_run, find_factory
from ..definitions.registry import Registry
from .calling import acall, call

logger = logging.getLogger("django_pgjobs.worker")


def sync_chain(paths: Sequence[str], registry: Registry) -> GetResult | None:
    """Return the middleware around handlers that are called in a thread; None if there is none.

    Raises:
        ImproperlyConfigured: a path leads to no middleware.
    """

    def get_result(context: JobContext) -> Any:
        return call(registry.get(context.name), context)

    return _chain(paths, get_result, is_async=False)


def async_chain(paths: Sequence[str], registry: Registry) -> GetResult | None:
    """Return the middleware around handlers in an event loop; None if there is none.

    Raises:
        ImproperlyConfigured: a path leads to no middleware.
    """

    async def get_result(context: JobContext) -> Any:
        return await acall(registry.get(context.name), context)

    return _chain(paths, get_result, is_async=True)


def _chain(paths: Sequence[str], innermost: GetResult, *, is_async: bool) -> GetResult | None:
    chain, chain_is_async = innermost, is_async
    for path in reversed(paths):
        factory = find_factory(path)
        is_async_here = _is_async(factory, chain_is_async)
        if is_async and not is_async_here:
            logger.warning(
                "The middleware %s is synchronous. Each handler in the event loop holds one of "
                "the PGJOBS['ASYNC_THREADS'] threads while it runs: no more run at a time.",
                path,
            )
        adapted = _adapt(chain, chain_is_async, is_async_here)
        middleware = _make(factory, adapted, path)
        if middleware is not None:
            chain, chain_is_async = middleware, is_async_here
    return None if chain is innermost else _adapt(chain, chain_is_async, is_async)


def _is_async(factory: Factory, is_next_async: bool) -> bool:
    """Return the colour of a middleware: that of what comes next, if it can be."""
    return is_next_async if can_run(factory, is_async=is_next_async) else not is_next_async


def _adapt(call_next: GetResult, is_async: bool, to_async: bool) -> GetResult:
    if is_async == to_async:
        return call_next
    return sync_to_async(call_next) if to_async else async_to_sync(call_next)


def _make(factory: Factory, get_result: GetResult, path: str) -> GetResult | None:
    try:
        middleware: Any = factory(get_result)
    except MiddlewareNotUsed as reason:
        logger.debug("middleware not used: path=%s reason=%s", path, reason)
        return None
    if not callable(middleware):
        raise ImproperlyConfigured(
            f"The middleware {path!r} returned {middleware!r} when it was given get_result. It "
            "must return a function that takes the context."
        )
    return middleware  # type: ignore[no-any-return]
