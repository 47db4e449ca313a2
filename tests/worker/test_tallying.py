"""What a worker counts of jobs with a breaker or a retry budget."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from django_pgjobs import RetryBudget
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.models import Breaker
from django_pgjobs.states import Outcome
from django_pgjobs.store.finish import Ending, Success
from django_pgjobs.worker import tallying
from django_pgjobs.worker.recording import Recorded
from django_pgjobs.worker.tallying import Tally

MINUTE = timedelta(minutes=1)


def pay():
    pass


def ship():
    pass


@pytest.fixture
def registry():
    registry = Registry()
    budget = RetryBudget(ratio=0.5, minimum=1)
    registry.add(JobDefinition(name="pay", function=pay, breaker="bank", retry_budget=budget))
    registry.add(JobDefinition(name="ship", function=ship))
    return registry


@pytest.fixture
def tally(registry, monkeypatch):
    monkeypatch.setattr(tallying, "_EVERY", 0.0)
    return Tally(registry, "worker-a")


def ending(outcome=Outcome.FAILED, **values):
    return Ending(id=1, fence_token=1, outcome=outcome, **values)


def counts(connection):
    query = (
        "SELECT subject, sum(successes), sum(failures) FROM outcome_counts GROUP BY 1 ORDER BY 1"
    )
    return connection.execute(query).fetchall()


def test_breakers_are_declared_with_the_first_telling(connection, tally):
    tally.tell_if_due(connection)

    breaker = Breaker.objects.get()
    assert (breaker.name, breaker.job_names, breaker.state) == ("bank", ["pay"], "closed")


def test_outcomes_are_counted_and_told_once(connection, tally):
    tally.note("pay", Success(1, 1, None))
    tally.note("pay", Recorded(1, 1))
    tally.note("pay", ending())
    tally.note("pay", ending(Outcome.TIMEOUT))

    tally.tell_if_due(connection)
    tally.tell_if_due(connection)

    assert counts(connection) == [("breaker bank", 2, 2), ("job pay", 2, 2)]


@pytest.mark.parametrize(
    "outcome",
    [
        ending(Outcome.SNOOZED),
        ending(Outcome.CANCELLED),
        ending(Outcome.RELEASED),
        ending(is_retryable=False),
    ],
    ids=str,
)
def test_what_says_nothing_about_the_other_side_is_not_counted(connection, tally, outcome):
    tally.note("pay", outcome)

    tally.tell_if_due(connection)

    assert counts(connection) == []


def test_jobs_without_breaker_and_budget_cost_nothing(connection):
    registry = Registry()
    registry.add(JobDefinition(name="ship", function=ship))
    tally = Tally(registry, "worker-a")
    tally.note("ship", ending())

    tally.tell_if_due(None)

    assert tally.spread("ship", ending()) == ending()


def test_nobody_is_told_twice_a_second(connection, registry):
    tally = Tally(registry, "worker-a")
    tally.tell_if_due(connection)
    tally.note("pay", ending())

    tally.tell_if_due(connection)

    assert counts(connection) == []


def test_what_could_not_be_told_is_told_later(connection, connect, tally):
    tally.tell_if_due(connection)
    tally.note("pay", ending())
    gone = connect()
    gone.close()

    with pytest.raises(psycopg.OperationalError):
        tally.tell_if_due(gone)
    tally.tell_if_due(connection)

    assert counts(connection) == [("breaker bank", 0, 1), ("job pay", 0, 1)]


# Retry budgets


def test_within_its_budget_a_retry_waits_as_usual(tally):
    assert tally.spread("pay", ending()).spread == timedelta(0)


def test_beyond_its_budget_a_retry_waits_longer_and_is_not_lost(tally):
    for _ in range(3):
        tally.note("pay", ending())

    delayed = tally.spread("pay", ending())

    assert delayed.spread == 3 * MINUTE
    assert (delayed.outcome, delayed.is_retryable) == (Outcome.FAILED, True)


def test_successes_of_all_workers_are_in_the_budget(connection, registry, tally):
    other = Tally(registry, "worker-b")
    for _ in range(20):
        other.note("pay", Success(1, 1, None))
    other.tell_if_due(connection)
    for _ in range(5):
        tally.note("pay", ending())
    alone = tally.spread("pay", ending()).spread

    tally.tell_if_due(connection)

    assert alone > timedelta(0)
    assert tally.spread("pay", ending()).spread == timedelta(0)


@pytest.mark.parametrize("outcome", [ending(Outcome.SNOOZED), ending(is_retryable=False)], ids=str)
def test_what_is_no_retry_waits_as_it_would(tally, outcome):
    for _ in range(9):
        tally.note("pay", ending())

    assert tally.spread("pay", outcome) == outcome
