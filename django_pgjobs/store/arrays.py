"""Array parameters of statements that are executed all the time."""

from __future__ import annotations

from collections.abc import Iterable


def bigints(numbers: Iterable[int]) -> str:
    """Return numbers as the text of a ``bigint[]``, for a parameter that is cast to it.

    psycopg looks for the smallest type that holds them all, and adapts each by itself: for a
    hundred numbers that takes seven times as long.
    """
    return "{" + ",".join(map(str, numbers)) + "}"
