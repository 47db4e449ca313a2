"""Middleware for the processes that the acceptance tests start."""

from __future__ import annotations

from asgiref.sync import iscoroutinefunction
from django.utils.decorators import sync_and_async_middleware


@sync_and_async_middleware
def marking(get_result):
    """Wrap each result in an object that tells its colour."""

    async def async_middleware(context):
        return {"async": await get_result(context)}

    def middleware(context):
        return {"sync": get_result(context)}

    return async_middleware if iscoroutinefunction(get_result) else middleware


def counting(get_result):
    """Add to the arguments of each job that has a number."""

    def middleware(context):
        if "number" in context.arguments:
            context.arguments["number"] += 1
        return get_result(context)

    return middleware
