"""Which database errors pass, and how long to wait for that."""

from __future__ import annotations

from random import Random
from typing import Final

import psycopg
from psycopg import errors

#: Longest wait between two tries, in seconds.
LONGEST: Final = 5.0

_TRANSIENT: Final = (
    psycopg.OperationalError,  # the connection, the server, its resources, deadlocks
    psycopg.InterfaceError,  # the connection was closed
    errors.CheckViolation,  # a partition was attached just now: 23514
    errors.SerializationFailure,
    errors.UndefinedTable,  # a partition was dropped just now, or migrations still run
    errors.ReadOnlySqlTransaction,  # a standby that has not been promoted yet: 25006
    errors.InsufficientPrivilege,  # rights are being rearranged: no fault of the outcome
)


def is_transient(error: psycopg.Error) -> bool:
    """Say whether the same statement may well succeed later."""
    return isinstance(error, _TRANSIENT) or error.sqlstate is None


def pause_before(tries: int, random: Random) -> float:
    """Return the seconds to wait before the next try: exponential, with jitter.

    Args:
        tries: that have failed, from 1.
        random: source of jitter.
    """
    ceiling = min(LONGEST, 0.05 * 2.0 ** min(tries, 10))
    return ceiling * (0.5 + random.random() / 2)


def describe(error: psycopg.Error) -> str:
    """Return what an error says, without the row it concerns: that may hold a payload."""
    message = error.diag.message_primary or str(error).partition("\n")[0]
    return f"{message} ({error.sqlstate or type(error).__name__})"
