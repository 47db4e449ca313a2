"""Declarations of breakers and retry budgets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs import Breaker, RetryBudget
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.exceptions import InvalidHandler

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def noop():
    pass


def other():
    pass


def define(name="x", function=noop, **options):
    return JobDefinition(name=name, function=function, **options)


def test_a_name_stands_for_a_breaker_and_a_number_for_a_budget():
    definition = define(breaker="sendgrid", retry_budget=0.5)

    assert definition.breaker == Breaker(name="sendgrid")
    assert definition.retry_budget == RetryBudget(ratio=0.5)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": ""}, "name must be text of 1 to 200 characters, not ''."),
        ({"name": "a\x00"}, "name must be text"),
        ({"name": "\ud800"}, "name must be text"),
        ({"name": "x" * 201}, "name must be text"),
        ({"failure_ratio": 0}, "failure_ratio must be above 0 and at most 1, not 0."),
        ({"failure_ratio": 1.5}, "failure_ratio must be"),
        ({"failure_ratio": float("nan")}, "failure_ratio must be"),
        ({"failure_ratio": True}, "failure_ratio must be"),
        ({"minimum": 0}, "minimum must be a whole number from 1, not 0."),
        ({"minimum": 2**31}, "minimum must be"),
        ({"probes": 1.5}, "probes must be"),
        ({"period": timedelta(0)}, "period must be a timedelta of a second to an hour, not"),
        ({"period": timedelta(hours=2)}, "period must be"),
        ({"cooldown": timedelta(0)}, "cooldown must be above 0 and at most a day, not"),
        ({"cooldown": 30}, "cooldown must be"),
    ],
    ids=repr,
)
def test_a_breaker_that_makes_no_sense_is_refused(values, problem):
    with pytest.raises(InvalidHandler) as refused:
        Breaker(**{"name": "x", **values})

    assert str(refused.value).startswith(f"Breaker: {problem}")


@pytest.mark.parametrize("values", [{"ratio": 0}, {"ratio": "1"}, {"minimum": 0}, {"period": 60}])
def test_a_budget_that_makes_no_sense_is_refused(values):
    with pytest.raises(InvalidHandler, match=f"RetryBudget: {next(iter(values))} must be"):
        RetryBudget(**values)


@pytest.mark.parametrize("options", [{"breaker": 7}, {"retry_budget": "many"}])
def test_what_is_neither_is_refused(options):
    with pytest.raises(InvalidHandler, match=f"{next(iter(options))} must be a n"):
        define(**options)


def test_one_breaker_has_one_set_of_values():
    registry = Registry()
    registry.add(define("a", breaker="bank"))
    registry.add(define("b", other, breaker=Breaker(name="bank")))

    with pytest.raises(InvalidHandler) as refused:
        registry.add(define("c", other, breaker=Breaker(name="bank", probes=3)))

    assert str(refused.value).startswith("'c' and 'a' declare the breaker 'bank' with different")
    (breaker,) = registry.breakers()
    assert (breaker.name, breaker.job_names) == ("bank", ["a", "b"])


# Retry budgets


BUDGET = RetryBudget(ratio=0.2, minimum=10, period=MINUTE)


@pytest.mark.parametrize(("successes", "retries"), [(0, 0), (0, 10), (100, 20), (1000, 200)])
def test_within_the_budget_no_retry_waits_longer(successes, retries):
    assert BUDGET.spread(successes=successes, retries=retries) == timedelta(0)


@pytest.mark.parametrize(
    ("successes", "retries", "spread"),
    [(0, 20, MINUTE), (100, 40, MINUTE), (100, 60, 2 * MINUTE), (0, 10**9, timedelta(hours=1))],
)
def test_beyond_it_retries_are_spread_by_how_many_there_are(successes, retries, spread):
    assert BUDGET.spread(successes=successes, retries=retries) == spread
