"""Jobs of claims whose answer got lost."""

from __future__ import annotations

from django_pgjobs.worker.unanswered import Unanswered
from tests import factories
from tests.factories import WORKER
from tests.invariants import check_invariants
from tests.store.calls import BACKOFF, claim_jobs


def unanswered():
    return Unanswered(worker_id=WORKER, **BACKOFF)


def test_they_are_given_back_uncounted(connection):
    job = factories.pending_job()
    claim_jobs(connection)
    looking = unanswered()
    looking.note_error()

    assert looking.is_due
    assert looking.give_back(connection, []) == [job.id]

    job.refresh_from_db()
    assert (job.status, job.attempt, job.claims, job.locked_by) == ("retryable", 0, 1, None)
    assert check_invariants(connection) == []


def test_what_is_in_hand_stays(connection):
    factories.pending_job()
    (claimed,) = claim_jobs(connection).jobs
    looking = unanswered()
    looking.note_error()

    assert looking.give_back(connection, [claimed.fence_token]) == []


def test_without_an_error_there_is_nothing_to_look_for():
    assert not unanswered().is_due


def test_the_next_look_is_due_when_no_statement_can_go_on(connection):
    looking = unanswered()
    looking.note_error()

    looking.give_back(connection, [])

    assert not looking.is_due
    looking._look_at = [at - 60.0 for at in looking._look_at]
    assert looking.is_due
    looking.give_back(connection, [])
    assert not looking.is_due
