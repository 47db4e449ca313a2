"""Whether a job that failed may yet succeed, and how long to wait for that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import django.core.exceptions
import django.db
import django.db.transaction
import psycopg

from ..conf import LONGEST_DURATION
from ..exceptions import (
    DeclarationError,
    InvalidHandler,
    InvalidOption,
    InvalidPayload,
    UndecodablePayload,
)
from ..outcomes import Retry

logger = logging.getLogger("django_pgjobs.worker")

Exceptions = tuple[type[BaseException], ...]

#: What passes: somebody was not there, or too slow. An error that is none of these and none of
#: the following is retried too.
RETRIED: Final[Exceptions] = (
    ConnectionError,
    TimeoutError,
    django.db.OperationalError,
    django.db.InterfaceError,
    # What went wrong first may have been anything.
    django.db.transaction.TransactionManagementError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)

#: What says the same again, however often the job runs.
DISCARDED: Final[Exceptions] = (
    UndecodablePayload,
    DeclarationError,
    InvalidOption,
    InvalidPayload,
    django.core.exceptions.ValidationError,
    django.core.exceptions.FieldError,
    django.core.exceptions.FieldDoesNotExist,
    django.db.ProgrammingError,
    django.db.NotSupportedError,
    psycopg.ProgrammingError,
    psycopg.NotSupportedError,
)

#: The same, of a package that need not be installed.
_DISCARDED_OF_PYDANTIC: Final = frozenset(
    {
        "pydantic_core._pydantic_core.ValidationError",
        "pydantic.errors.PydanticUserError",
        "pydantic.v1.error_wrappers.ValidationError",
    }
)

#: Programming errors that a migration puts right, or a right that is granted: undefined column,
#: function, schema, table, object; insufficient privilege. And what a migration or a pooler does
#: to prepared statements: a cached plan that does not fit, a statement that is not there or there
#: already. See https://www.postgresql.org/docs/current/errcodes-appendix.html
_MAY_PASS: Final = frozenset(
    {"42703", "42883", "3F000", "42P01", "42704", "42501", "0A000", "26000", "42P05"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A delay that doubles with each failure: ``@job(backoff=Backoff(base=…, cap=…))``.

    Full jitter: the delay is random between zero and its ceiling, so that jobs that failed
    together do not come back together. It is worked out by the server, on its clock.

    Attributes:
        base: ceiling after the first failure; zero for none.
        cap: highest ceiling, at most 36,525 days.

    Raises:
        InvalidHandler: they are no durations, or ``base`` is above ``cap``.

    See: sql/finish/end_attempts.sql, and
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    base: timedelta
    cap: timedelta

    def __post_init__(self) -> None:
        for value in (self.base, self.cap):
            if not _is_delay(value):
                raise InvalidHandler(
                    f"Backoff: base and cap must be timedeltas of 0 to 36525 days, not {value!r}."
                )
        if self.base > self.cap:
            raise InvalidHandler(f"Backoff: base ({self.base}) is above cap ({self.cap}).")


#: How long to wait before the next attempt: a doubling delay, always the same one, or what a
#: function makes of the number of the attempt that failed, from 1, and its error.
BackoffPolicy = Backoff | timedelta | Callable[[int, BaseException], timedelta]


def may_succeed(
    error: BaseException, *, retry_on: Exceptions = (), discard_on: Exceptions = ()
) -> bool:
    """Say whether a job that raised ``error`` is to run again.

    The job's own lists decide first, then RETRIED and DISCARDED; in either pair the class
    nearest to that of the error. A group of exceptions may succeed when one in it may.
    An unknown error is retried.

    Args:
        error: what the handler raised.
        retry_on: classes that the job wants retried.
        discard_on: classes after which the job wants to be dead at once.
    """
    if isinstance(error, Retry):
        return True
    verdict = _nearest(type(error), retry_on, discard_on)
    if verdict is not None:
        return verdict
    if isinstance(error, BaseExceptionGroup):
        return any(
            may_succeed(leaf, retry_on=retry_on, discard_on=discard_on)
            for leaf in error.exceptions
        )
    if _sqlstate(error) in _MAY_PASS:
        return True
    of_pydantic = (kind for kind in type(error).__mro__ if _path(kind) in _DISCARDED_OF_PYDANTIC)
    return _nearest(type(error), RETRIED, (*DISCARDED, *of_pydantic)) is not False


def chosen_delay(
    policy: BackoffPolicy | None, attempt: int, error: BaseException
) -> timedelta | None:
    """Return the delay that a fixed policy or a function gives; None for a doubling one.

    A function that raises, or returns no duration, is logged and counts as no policy. A delay
    beyond 36,525 days is cut to that, one below zero to zero.

    Args:
        policy: of the job.
        attempt: that failed, from 1.
        error: by which it failed.
    """
    if policy is None or isinstance(policy, Backoff):
        return None
    if isinstance(policy, timedelta):
        return policy
    try:
        delay = policy(attempt, error)
        if not isinstance(delay, timedelta):
            raise TypeError(f"It returned {delay!r}, which is no timedelta.")
    except Exception:
        logger.exception("The backoff %r failed; the usual one is used", policy)
        return None
    return min(max(delay, timedelta(0)), LONGEST_DURATION)


def exceptions_of(value: Any) -> Exceptions:
    """Return a declared exception class, or several, as a tuple."""
    if isinstance(value, Iterable) and not isinstance(value, (str, type)):
        return tuple(value)
    return (value,)


def retry_problems(retry_on: Exceptions, discard_on: Exceptions, backoff: object) -> list[str]:
    """Return what is wrong with how a job wants to be retried."""
    problems = [
        f"{option} takes classes of exceptions, not {item!r}."
        for option, items in (("retry_on", retry_on), ("discard_on", discard_on))
        for item in items
        if not (isinstance(item, type) and issubclass(item, Exception))
    ]
    problems += [
        f"{item.__qualname__} is both in retry_on and in discard_on."
        for item in retry_on
        if item in discard_on
    ]
    is_policy = backoff is None or isinstance(backoff, Backoff) or callable(backoff)
    if not is_policy and not _is_delay(backoff):
        problems.append(
            "backoff must be a Backoff, a timedelta of 0 to 36525 days, or a function, "
            f"not {backoff!r}."
        )
    return problems


def _nearest(kind: type[BaseException], retried: Exceptions, discarded: Exceptions) -> bool | None:
    """Return whether the class or its nearest listed base is retried; None if none is listed."""
    for base in kind.__mro__:
        if base in retried:
            return True
        if base in discarded:
            return False
    return None


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _sqlstate(error: BaseException) -> str | None:
    # Django's errors have psycopg's as their cause.
    for one in (error, error.__cause__):
        if isinstance(one, psycopg.Error):
            return one.sqlstate
    return None


def _is_delay(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta(0) <= value <= LONGEST_DURATION
