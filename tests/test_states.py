"""The states of a job, and the one table of legal transitions."""

from __future__ import annotations

import pytest

from django_pgjobs.models import JobAttempt
from django_pgjobs.states import FINAL, TRANSITIONS, WAITING, JobStatus, Outcome
from tests.factories import query_value


@pytest.mark.django_db
def test_the_enum_of_the_database_has_the_same_statuses_in_the_same_order():
    in_database = query_value("SELECT enum_range(NULL::job_status)::text[]")

    assert in_database == JobStatus.values


@pytest.mark.django_db
def test_the_database_orders_final_statuses_behind_all_others():
    """The constraints of the two tables compare with 'completed'."""
    final = query_value(
        "SELECT array_agg(status::text) FROM unnest(enum_range(NULL::job_status)) AS status "
        "WHERE status >= 'completed'"
    )

    assert set(final) == FINAL


def test_the_table_of_transitions_has_every_status():
    assert set(TRANSITIONS) == set(JobStatus)


def test_every_status_can_be_reached():
    reached = {JobStatus.SCHEDULED, JobStatus.PENDING}.union(*TRANSITIONS.values())

    assert set(JobStatus) == reached


def test_every_status_leads_to_an_end():
    for start in JobStatus:
        seen, border = {start}, {start}
        while border:
            border = set().union(*(TRANSITIONS[status] for status in border)) - seen
            seen |= border
        assert seen & FINAL


def test_no_status_leads_to_itself():
    assert [status for status, after in TRANSITIONS.items() if status in after] == []


def test_only_a_pending_job_is_claimed_and_only_a_running_one_succeeds():
    def leading_to(target):
        return {status for status, after in TRANSITIONS.items() if target in after}

    assert leading_to(JobStatus.RUNNING) == {JobStatus.PENDING}
    assert leading_to(JobStatus.COMPLETED) == {JobStatus.RUNNING}
    assert leading_to(JobStatus.PENDING) == (
        WAITING | {JobStatus.BLOCKED, JobStatus.DEAD, JobStatus.CANCELLED}
    )


def test_every_unfinished_job_can_be_cancelled():
    for status in set(JobStatus) - FINAL:
        assert JobStatus.CANCELLED in TRANSITIONS[status]


def test_what_succeeded_does_not_run_again():
    assert TRANSITIONS[JobStatus.COMPLETED] == frozenset()


def test_waiting_and_final_have_nothing_in_common():
    assert not WAITING & FINAL


@pytest.mark.parametrize("value", [*JobStatus, *Outcome], ids=repr)
def test_every_value_has_a_label(value):
    assert value.label


def test_the_column_of_outcomes_takes_each():
    length = JobAttempt._meta.get_field("outcome").max_length

    assert length is None or max(map(len, Outcome.values)) <= length
