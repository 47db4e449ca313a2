"""Find the factories of middleware that PGJOBS names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from .context import JobContext

#: Runs the rest of the chain, and the handler at its end; a coroutine function in the event loop.
GetResult = Callable[[JobContext], Any]

#: Makes a middleware that wraps the rest of the chain.
Factory = Callable[[GetResult], GetResult]


def find_factory(path: str) -> Factory:
    """Return the factory at a dotted path.

    Raises:
        ImproperlyConfigured: there is none, or it says that it works neither in threads nor in the
            event loop.
    """
    try:
        factory: Any = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"PGJOBS['MIDDLEWARE'] names {path!r}, which cannot be imported: {error}"
        ) from error
    if not callable(factory):
        raise ImproperlyConfigured(
            f"PGJOBS['MIDDLEWARE'] names {path!r}, which is {factory!r} and not callable. "
            "Name a function or a class that takes get_result."
        )
    if not (can_run(factory, is_async=False) or can_run(factory, is_async=True)):
        raise ImproperlyConfigured(
            f"The middleware {path!r} has both sync_capable and async_capable set to False. At "
            "least one of them must be True."
        )
    return factory  # type: ignore[no-any-return]


def can_run(factory: Factory, *, is_async: bool) -> bool:
    """Say whether what a factory makes is, or can be, of this colour.

    By the marks of Django's ``sync_only_middleware``, ``async_only_middleware`` and
    ``sync_and_async_middleware``; without any it is synchronous.
    """
    name, default = ("async_capable", False) if is_async else ("sync_capable", True)
    return bool(getattr(factory, name, default))
