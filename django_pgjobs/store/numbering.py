"""Named parameters of long statements, replaced once and not at each execution.

psycopg looks for them in the whole text each time, and keeps what it has found only for texts of
up to 4,096 characters: for a claim that takes 70 microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Self

import psycopg

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s|%%")


class NumberedCursor(psycopg.RawCursor[Any]):
    """Executes statements with named parameters, of which there are few different ones."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        """As in psycopg, with ``query`` a text and ``params`` a mapping."""
        text, names = numbered(query)
        values: Mapping[str, Any] = params
        return super().execute(text, [values[name] for name in names], **options)


@cache
def numbered(query: str) -> tuple[bytes, list[str]]:
    """Return a query with ``$1`` for ``%(name)s``, and the names in the order of their numbers."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _PLACEHOLDER.sub(number, query).encode(), names
