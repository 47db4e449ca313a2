"""Breakers: when they open and close, and what becomes of their jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.administration import operations
from django_pgjobs.exceptions import OperationError
from django_pgjobs.maintenance.breaking import BreakerKeeper, due_change
from django_pgjobs.models import ActiveJob, Breaker
from django_pgjobs.states import Outcome
from django_pgjobs.store.breakers import (
    BreakerState,
    DeclaredBreaker,
    Outcomes,
    change_breaker,
    count_outcomes,
    declare_breakers,
    list_probes,
)
from tests import factories
from tests.invariants import check_invariants
from tests.store.calls import LEASE, claim_jobs, claim_jobs_of_tenant, complete, end, reap

MINUTE = timedelta(minutes=1)


def keep(connection, batch_size=10):
    return BreakerKeeper().run_once(connection, batch_size=batch_size)


def tell(connection, *, successes=0, failures=0, name="bank"):
    """Write down what a worker saw."""
    seen = Outcomes(f"breaker {name}", successes, failures)
    count_outcomes(connection, [seen], periods=[MINUTE], worker_id="worker-a")


def state_of(connection, name="bank"):
    return connection.execute("SELECT state FROM breakers WHERE name = %s", [name]).fetchone()[0]


def wait_no_longer(connection):
    """Let the cooldown be over."""
    connection.execute("UPDATE breakers SET retry_at = now() - interval '1 s'")


def statuses(**conditions):
    jobs = ActiveJob.objects.filter(**conditions).order_by("id")
    return list(jobs.values_list("status", "attempt", "claims"))


@pytest.fixture
def breaker(connection):
    return factories.BreakerFactory()


@pytest.fixture
def opened(connection, breaker):
    tell(connection, successes=2, failures=2)
    keep(connection)
    assert state_of(connection) == "open"
    return breaker


# Decisions


def breaker_state(**values):
    defaults = {
        "name": "bank",
        "state": "closed",
        "reason": "",
        "is_due": False,
        "failure_ratio": 0.5,
        "minimum": 4,
        "period": MINUTE,
        "cooldown": MINUTE,
        "probes": 2,
        "successes": 0,
        "failures": 0,
        "job_names": [],
    }
    return BreakerState(**{**defaults, **values})


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, None),
        ({"failures": 3}, None),
        ({"failures": 4}, "open"),
        ({"failures": 2, "successes": 2}, "open"),
        ({"failures": 2, "successes": 3}, None),
        ({"state": "open", "failures": 9}, None),
        ({"state": "open", "is_due": True}, "half_open"),
        ({"state": "half_open"}, None),
        ({"state": "half_open", "successes": 1}, None),
        ({"state": "half_open", "successes": 2}, "closed"),
        ({"state": "half_open", "successes": 2, "failures": 1}, "open"),
    ],
    ids=str,
)
def test_what_was_seen_decides(values, state):
    change = due_change(breaker_state(**values))

    assert (change.state if change else None) == state


def test_the_reason_tells_what_was_seen():
    change = due_change(breaker_state(failures=3, successes=1))

    assert change.reason == "3 of 4 attempts failed in 0:01:00."


# A closed breaker


def test_without_breakers_there_is_nothing_to_do(connection):
    report = keep(connection)

    assert (report.touched, report.notes, report.is_full) == ((), None, False)


def test_what_all_workers_see_opens_it(connection, breaker):
    tell(connection, failures=2)
    seen = Outcomes("breaker bank", 0, 2)
    (known,) = count_outcomes(connection, [seen], periods=[MINUTE], worker_id="worker-b")

    report = keep(connection)

    assert (known.successes, known.failures) == (0, 4)
    assert report.notes == {"bank": "open"}
    opened = Breaker.objects.get()
    assert (opened.state, opened.reason) == ("open", "4 of 4 attempts failed in 0:01:00.")
    assert opened.retry_at == opened.changed_at + breaker.cooldown


def test_what_was_long_ago_or_of_another_does_not(connection, breaker):
    tell(connection, failures=9)
    connection.execute("UPDATE outcome_counts SET counted_at = now() - interval '61 s'")
    tell(connection, failures=9, name="post")

    keep(connection)

    assert state_of(connection) == "closed"


def test_old_counts_are_forgotten(connection):
    tell(connection, failures=1)
    connection.execute("UPDATE outcome_counts SET counted_at = now() - interval '61 min'")
    tell(connection, failures=2)

    keep(connection)

    assert connection.execute("SELECT failures FROM outcome_counts").fetchall() == [(2,)]


# An open one


@pytest.mark.parametrize("claim", [claim_jobs, claim_jobs_of_tenant])
def test_while_it_is_open_its_jobs_are_not_claimed_and_spend_no_attempt(connection, opened, claim):
    factories.pending_jobs(3)
    others = factories.pending_jobs(2, job_name="tests.other")

    first = claim(connection, limit=4)
    second = claim(connection, limit=4)

    assert [job.id for job in (*first.jobs, *second.jobs)] == [job.id for job in others]
    assert (first.has_held, second.has_held) == (True, False)
    assert statuses(job_name="tests.noop") == [("blocked", 0, 0)] * 3
    assert set(ActiveJob.objects.values_list("held_by", flat=True)) == {None, "bank"}
    assert check_invariants(connection) == []


def test_jobs_that_are_held_are_walked_over_once(connection, opened):
    """So that a long backlog of them does not stand in the way of every claim."""
    factories.pending_jobs(20)
    other = factories.pending_job(job_name="tests.other")

    claims = [claim_jobs(connection, limit=7) for _ in range(4)]

    assert [claim.has_held for claim in claims] == [True, True, True, False]
    assert [job.id for claim in claims for job in claim.jobs] == [other.id]


def test_what_fails_while_it_is_open_waits_too(connection, breaker):
    factories.pending_job()
    (job,) = claim_jobs(connection).jobs
    tell(connection, failures=4)
    keep(connection)

    end(connection, job, delay=timedelta(0))
    connection.execute("UPDATE jobs_active SET status = 'pending'")
    claim_jobs(connection)

    assert statuses() == [("blocked", 1, 1)]


def test_held_jobs_can_be_cancelled_and_expire(connection, opened):
    jobs = factories.pending_jobs(2)
    claim_jobs(connection)

    done = operations.cancel(None, [jobs[0].id])

    assert done.cancelled == [jobs[0].id]


# A half-open one


def test_after_its_cooldown_it_lets_some_through(connection, opened):
    jobs = factories.pending_jobs(5)
    claim_jobs(connection)
    wait_no_longer(connection)

    keep(connection)
    claimed = claim_jobs(connection, limit=10)
    keep(connection)

    assert state_of(connection) == "half_open"
    assert [job.id for job in claimed.jobs] == [job.id for job in jobs[:2]]
    assert [row[0] for row in statuses()] == ["running"] * 2 + ["blocked"] * 3
    assert list_probes(connection) == ["tests.noop"] * 2


def test_when_the_probes_succeed_it_closes_and_all_go_on(connection, opened):
    factories.pending_jobs(5)
    claim_jobs(connection)
    wait_no_longer(connection)
    keep(connection)
    complete(connection, *claim_jobs(connection).jobs)
    tell(connection, successes=2)

    report = keep(connection)

    assert report.notes == {"bank": "closed", "released": 3}
    assert statuses(status="pending", held_by=None, is_probe=False) == [("pending", 0, 0)] * 3
    assert len(claim_jobs(connection).jobs) == 3


def test_when_a_probe_fails_it_opens_again(connection, opened):
    factories.pending_jobs(3)
    claim_jobs(connection)
    wait_no_longer(connection)
    keep(connection)
    probe, _ = claim_jobs(connection).jobs
    end(connection, probe, Outcome.FAILED, delay=timedelta(0))
    tell(connection, failures=1)

    keep(connection)

    known = Breaker.objects.get()
    assert (known.state, known.reason) == ("open", "A probe failed.")
    assert known.retry_at == known.changed_at + known.cooldown
    # It is no probe any more: the next claim holds it like the others.
    assert not ActiveJob.objects.get(pk=probe.id).is_probe


def test_a_probe_whose_worker_dies_makes_room_for_another(connection, opened):
    factories.pending_jobs(4)
    claim_jobs(connection)
    wait_no_longer(connection)
    keep(connection)
    claim_jobs(connection, lease=timedelta(0))
    reap(connection)

    keep(connection)

    assert ActiveJob.objects.filter(is_probe=True, status="pending").count() == 2


def test_with_nobody_waiting_the_next_job_is_the_probe(connection, opened):
    wait_no_longer(connection)
    keep(connection)
    job = factories.pending_job()
    assert claim_jobs(connection).jobs == []

    keep(connection)

    assert [found.id for found in claim_jobs(connection).jobs] == [job.id]


# Closing


def test_many_are_let_through_in_batches(connection, opened):
    factories.pending_jobs(5)
    claim_jobs(connection)
    change_breaker(
        connection, name="bank", from_states=["open"], state="closed", reason="", changed_by="me"
    )

    reports = [keep(connection, batch_size=2) for _ in range(4)]

    assert [report.is_full for report in reports] == [True, True, False, False]
    assert statuses() == [("pending", 0, 0)] * 5


def test_what_a_breaker_holds_that_is_gone_goes_on(connection, opened):
    factories.pending_job()
    claim_jobs(connection)
    Breaker.objects.all().delete()

    keep(connection)

    assert statuses() == [("pending", 0, 0)]


def test_a_released_job_goes_to_the_newest_epoch(connection, opened):
    factories.pending_job()
    claim_jobs(connection)
    Breaker.objects.all().delete()
    connection.execute("SELECT setval('jobs_epoch', 3)")

    keep(connection)

    assert ActiveJob.objects.get().epoch == 3


# By hand


@pytest.fixture
def declared(connection):
    """Declare a breaker in this process."""
    from django_pgjobs.definitions.definition import JobDefinition
    from django_pgjobs.definitions.registry import registry

    def pay():
        pass

    registry.add(JobDefinition(name="tests.breaking.pay", function=pay, breaker="hand"))
    yield
    del registry._definitions["tests.breaking.pay"]


def test_one_that_was_opened_by_hand_waits_for_a_hand(connection, declared):
    operations.open_breaker(None, "hand", reason="The bank told us to stop.")
    factories.pending_job(job_name="tests.breaking.pay")

    assert claim_jobs(connection).jobs == []
    keep(connection)

    known = Breaker.objects.get(name="hand")
    assert (known.state, known.retry_at) == ("open", None)
    assert known.reason == "Opened by the system: The bank told us to stop."
    operations.close_breaker(None, "hand")
    keep(connection)
    assert len(claim_jobs(connection).jobs) == 1


def test_an_unknown_breaker_is_told(connection):
    for act in (operations.open_breaker, operations.close_breaker):
        with pytest.raises(OperationError, match="There is no breaker 'nobody'"):
            act(None, "nobody")


def test_declaring_again_changes_values_and_jobs_but_no_state(connection, opened):
    row = DeclaredBreaker(
        name="bank",
        job_names=["b", "a"],
        failure_ratio=0.9,
        minimum=5,
        period=LEASE,
        cooldown=MINUTE,
        probes=3,
    )

    declare_breakers(connection, [row])
    (before,) = connection.execute("SELECT xmin::text FROM breakers").fetchall()
    declare_breakers(connection, [row])

    known = Breaker.objects.get()
    assert (known.state, known.job_names, known.minimum) == ("open", ["a", "b"], 5)
    assert connection.execute("SELECT xmin::text FROM breakers").fetchall() == [before]
