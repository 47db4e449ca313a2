"""Errors by kind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.observability.errors import error_groups
from tests import factories

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def attempt(fingerprint, *, ago=timedelta(0), job_id=1, **fields):
    """Write an attempt that failed."""
    return factories.JobAttemptFactory(
        job_id=job_id,
        fingerprint=fingerprint,
        error_class="ValueError",
        finished_at=factories.server_now() - ago,
        **fields,
    )


def test_each_kind_is_counted_once_the_most_frequent_first():
    oldest = attempt("a", ago=3 * HOUR, error_message="first")
    attempt("a", ago=2 * HOUR, claim=2)
    newest = attempt("a", job_id=2, job_name="tests.mail", error_message="last")
    attempt("b", job_id=3)
    attempt(None, job_id=4, outcome="snoozed")

    first, second = error_groups()

    assert (first.fingerprint, first.count, first.jobs, first.dead) == ("a", 3, 2, 0)
    assert (first.first_seen, first.last_seen) == (oldest.finished_at, newest.finished_at)
    assert (first.job_id, first.job_name) == (2, "tests.mail")
    assert (first.error_class, first.error_message) == ("ValueError", "last")
    assert (second.fingerprint, second.count) == ("b", 1)


def test_of_late_means_in_the_time_asked_for_but_first_seen_means_ever():
    ever = attempt("a", ago=48 * HOUR)
    attempt("b", ago=48 * HOUR)
    attempt("a", ago=HOUR, claim=2)

    (group,) = error_groups()

    assert (group.count, group.first_seen) == (1, ever.finished_at)
    assert len(error_groups(within=72 * HOUR)) == 2
    assert error_groups(within=HOUR / 2) == []


def test_dead_jobs_are_those_that_still_are():
    factories.dead_job(fingerprint="a")
    factories.dead_job(fingerprint="a")
    factories.cancelled_job(fingerprint="a")
    factories.dead_job(fingerprint="b")
    attempt("a")

    (group,) = error_groups()

    assert group.dead == 2


def test_kinds_may_be_asked_for_of_one_job_and_are_limited():
    for number in range(3):
        attempt(f"f{number}", job_id=number + 1)
    attempt("g", job_id=9, job_name="tests.mail")

    assert [group.fingerprint for group in error_groups(job="tests.mail")] == ["g"]
    assert len(error_groups(limit=2)) == 2
