"""Whether a job that failed runs again, and when."""

from __future__ import annotations

import logging
from datetime import timedelta

import django.core.exceptions
import django.db
import django.db.transaction
import psycopg
import pydantic
import pytest

from django_pgjobs import Backoff, Retry
from django_pgjobs.conf import LONGEST_DURATION
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.retries import chosen_delay, may_succeed
from django_pgjobs.exceptions import (
    InvalidHandler,
    InvalidPayload,
    JobTimeout,
    LeaseLost,
    UndecodablePayload,
)

SECOND = timedelta(seconds=1)


class Order(pydantic.BaseModel):
    lines: list[int]


class OrderLost(ValueError):
    """Of a project."""


class SlowValidation(django.core.exceptions.ValidationError, TimeoutError):
    """Both; the first base is the nearer one."""


def pydantic_error():
    with pytest.raises(pydantic.ValidationError) as caught:
        Order(lines="none")
    return caught.value


def database_error(kind, cause, message="no"):
    """Return an error as Django raises it."""
    error = kind(message)
    error.__cause__ = cause(message)
    return error


@pytest.mark.parametrize(
    "error",
    [
        django.core.exceptions.ValidationError("no"),
        django.core.exceptions.FieldError("no"),
        django.core.exceptions.FieldDoesNotExist("no"),
        django.db.ProgrammingError("no"),
        django.db.NotSupportedError("no"),
        database_error(django.db.ProgrammingError, psycopg.errors.SyntaxError, "syntax"),
        psycopg.errors.SyntaxError("no"),
        UndecodablePayload("no"),
        InvalidPayload("no"),
        SlowValidation("slow"),
        ExceptionGroup("no", [django.core.exceptions.ValidationError("no")]),
    ],
    ids=lambda error: f"{type(error).__module__}.{error!r}",
)
def test_what_says_the_same_again_is_not_retried(error):
    assert not may_succeed(error)


def test_an_error_of_pydantic_is_not_retried():
    assert not may_succeed(pydantic_error())


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("no"),
        TimeoutError("no"),
        JobTimeout(),
        django.db.OperationalError("no"),
        django.db.InterfaceError("no"),
        django.db.IntegrityError("no"),
        django.db.transaction.TransactionManagementError("no"),
        psycopg.OperationalError("no"),
        ValueError("no"),
        OrderLost("no"),
        LeaseLost("no", job_id=1, fence_token=1),
        SystemExit(1),
        Retry("no"),
        ExceptionGroup("no", [InvalidPayload("no"), TimeoutError("no")]),
    ],
    ids=lambda error: f"{type(error).__module__}.{error!r}",
)
def test_what_passes_and_what_is_unknown_is_retried(error):
    assert may_succeed(error)


@pytest.mark.parametrize(
    "cause",
    [
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedColumn,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.InvalidSqlStatementName,
        psycopg.errors.DuplicatePreparedStatement,
        psycopg.errors.FeatureNotSupported,
    ],
)
def test_what_a_migration_or_a_pooler_puts_right_is_retried(cause):
    assert may_succeed(cause("no"))
    assert may_succeed(database_error(django.db.ProgrammingError, cause))


def test_a_job_decides_before_the_defaults():
    validation = django.core.exceptions.ValidationError("no")

    assert may_succeed(validation, retry_on=(Exception,))
    assert not may_succeed(TimeoutError("no"), discard_on=(OSError,))


def test_the_nearest_class_decides():
    lists = {"retry_on": (OSError,), "discard_on": (FileNotFoundError, Exception)}

    assert may_succeed(PermissionError("no"), **lists)
    assert not may_succeed(FileNotFoundError("no"), **lists)
    assert not may_succeed(ValueError("no"), **lists)


def test_a_handler_that_asks_for_it_is_retried_whatever_the_lists_say():
    assert may_succeed(Retry("no"), discard_on=(Exception,))


def test_a_group_is_judged_by_its_own_class_first():
    group = ExceptionGroup("no", [TimeoutError("no")])

    assert not may_succeed(group, discard_on=(ExceptionGroup,))
    assert not may_succeed(group, discard_on=(TimeoutError,))


# Delays


def test_a_doubling_delay_is_left_to_the_server():
    assert chosen_delay(Backoff(base=SECOND, cap=SECOND), 1, ValueError()) is None
    assert chosen_delay(None, 1, ValueError()) is None


def test_a_fixed_delay_is_always_the_same():
    assert {chosen_delay(SECOND, attempt, ValueError()) for attempt in (1, 7, 10_000)} == {SECOND}


def test_a_function_sees_the_attempt_and_the_error():
    def backoff(attempt, error):
        return attempt * error.args[0]

    assert chosen_delay(backoff, 3, ValueError(SECOND)) == 3 * SECOND


@pytest.mark.parametrize(
    ("returned", "delay"),
    [(-SECOND, timedelta(0)), (timedelta.max, LONGEST_DURATION), (timedelta.min, timedelta(0))],
)
def test_what_a_function_returns_is_bounded(returned, delay):
    assert chosen_delay(lambda attempt, error: returned, 1, ValueError()) == delay


@pytest.mark.parametrize("returned", [None, 5, "soon"])
def test_a_function_that_returns_no_duration_counts_as_none(returned, caplog):
    with caplog.at_level(logging.ERROR):
        assert chosen_delay(lambda attempt, error: returned, 1, ValueError()) is None

    assert "which is no timedelta" in caplog.text


def test_a_function_that_raises_counts_as_none(caplog):
    def backoff(attempt, error):
        return SECOND * 2**attempt

    with caplog.at_level(logging.ERROR):
        assert chosen_delay(backoff, 10_000, ValueError()) is None

    assert "OverflowError" in caplog.text


# Declarations


def define(**options):
    return JobDefinition(name="x", function=lambda_free, **options)


def lambda_free():
    pass


def test_one_class_or_several_may_be_named():
    definition = define(retry_on=OSError, discard_on=[ValueError, TypeError])

    assert definition.retry_on == (OSError,)
    assert definition.discard_on == (ValueError, TypeError)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retry_on": "OSError"}, "retry_on takes classes of exceptions, not 'OSError'."),
        ({"discard_on": [int]}, "discard_on takes classes of exceptions, not <class 'int'>."),
        ({"retry_on": OSError("no")}, "retry_on takes classes of exceptions, not OSError('no')."),
        ({"retry_on": [KeyboardInterrupt]}, "retry_on takes classes of exceptions"),
        (
            {"retry_on": OSError, "discard_on": OSError},
            "OSError is both in retry_on and in discard_on.",
        ),
        ({"backoff": 5}, "backoff must be a Backoff, a timedelta of 0 to 36525 days, or a func"),
        ({"backoff": -SECOND}, "backoff must be a Backoff"),
        ({"backoff": timedelta.max}, "backoff must be a Backoff"),
    ],
    ids=repr,
)
def test_an_option_that_makes_no_sense_is_refused(options, problem):
    with pytest.raises(InvalidHandler) as refused:
        define(**options)

    assert str(refused.value).startswith(f"'x': {problem}")


@pytest.mark.parametrize(
    ("base", "cap", "problem"),
    [
        (5, SECOND, "base and cap must be timedeltas of 0 to 36525 days, not 5."),
        (SECOND, timedelta.max, "base and cap must be timedeltas"),
        (-SECOND, SECOND, "base and cap must be timedeltas"),
        (2 * SECOND, SECOND, "base (0:00:02) is above cap (0:00:01)."),
    ],
)
def test_a_backoff_that_makes_no_sense_is_refused(base, cap, problem):
    with pytest.raises(InvalidHandler) as refused:
        Backoff(base=base, cap=cap)

    assert str(refused.value).startswith(f"Backoff: {problem}")
