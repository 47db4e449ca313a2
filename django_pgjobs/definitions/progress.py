"""How far a handler has come, and whether it still moves."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any, Final

from .errors import storable

#: Longest message, in characters.
MAX_MESSAGE: Final = 200

#: Far beyond what is counted, and exact as a float.
_LARGEST: Final = 1e15


class Progress:
    """What a handler has said last about its progress.

    Saying it is cheap, so that a handler may do so in its innermost loop: three values are kept,
    and the heartbeat reads them when it comes by. Thread-safe.

    Args:
        timeout: seconds for which ``current`` may stand still, or None for ever.
    """

    __slots__ = ("_moved_at", "_said", "_timeout")

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._moved_at = monotonic()
        self._said: tuple[float | None, float | None, str] = (None, None, "")

    @property
    def has_stalled(self) -> bool:
        """True when ``current`` has not changed for the timeout."""
        return self._timeout is not None and monotonic() - self._moved_at > self._timeout

    @property
    def said(self) -> tuple[float | None, float | None, str]:
        """Current, total and message; no current before anything was said."""
        return self._said

    def say(self, current: float, total: float | None, message: str) -> None:
        """Take note of how far the work has come.

        Raises:
            TypeError: something is of the wrong type.
            ValueError: a number is none, or beyond 10^15.
        """
        _check(current, total, message)
        if current != self._said[0]:
            self._moved_at = monotonic()
        self._said = (current, total, message)

    def encode(self) -> str | None:
        """Return the JSON text of what was said; None if nothing was."""
        current, total, message = self._said
        if current is None:
            return None
        values: dict[str, Any] = {"current": current}
        if total is not None:
            values["total"] = total
        if message:
            values["message"] = storable(message, MAX_MESSAGE)
        return json.dumps(values)


def _check(current: Any, total: Any, message: Any) -> None:
    for number in (current,) if total is None else (current, total):
        if type(number) not in (int, float):
            raise TypeError(
                f"Progress is counted in numbers of type int or float, not {number!r}."
            )
        # Also of what is not a number, and not finite.
        if not -_LARGEST <= number <= _LARGEST:
            raise ValueError(f"Progress must be a number of at most 10^15, not {number!r}.")
    if not isinstance(message, str):
        raise TypeError(f"The message of a progress must be text, not {message!r}.")
