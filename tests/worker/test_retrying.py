"""Which database errors pass."""

from __future__ import annotations

from random import Random

import psycopg
import pytest
from psycopg import errors

from django_pgjobs.worker.retrying import LONGEST, describe, is_transient, pause_before


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("server closed the connection unexpectedly"),
        errors.DeadlockDetected("deadlock detected"),
        errors.AdminShutdown("terminating connection"),
        errors.CheckViolation("violates partition constraint"),
        errors.QueryCanceled("canceling statement due to statement timeout"),
        psycopg.InterfaceError("the connection is closed"),
        errors.ReadOnlySqlTransaction("cannot execute DELETE in a read-only transaction"),
        errors.InsufficientPrivilege("permission denied for table jobs_active"),
    ],
)
def test_outages_and_conflicts_pass(error):
    assert is_transient(error)


@pytest.mark.parametrize("error", [errors.UntranslatableCharacter("x"), errors.SyntaxError("x")])
def test_faults_of_the_data_do_not_pass(error):
    assert not is_transient(error)


def test_pauses_grow_up_to_a_bound():
    random = Random(1)
    pauses = [pause_before(tries, random) for tries in (1, 2, 3, 50, 10_000)]

    assert 0.05 <= pauses[0] <= 0.1
    assert max(pauses) <= LONGEST
    assert pauses[-1] >= LONGEST / 2


def test_the_description_of_an_error_holds_no_row(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            "INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name, payload) "
            "VALUES (1, now(), now(), 'completed', 'x', '{\"card\": \"4111\"}')"
        )

    assert "4111" in str(caught.value)
    assert describe(caught.value) == (
        'new row for relation "jobs_active" violates check constraint "jobs_active_status" (23514)'
    )
