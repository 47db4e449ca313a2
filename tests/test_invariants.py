"""The invariants hold for what the factories make, and each can be violated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from . import factories
from .invariants import check_invariants, invariants, make_ledger

MINUTE = timedelta(minutes=1)


def violated(connection, **options):
    return [violation.name.split()[0] for violation in check_invariants(connection, **options)]


def test_every_situation_of_a_job_is_lawful(connection):
    factories.pending_job()
    factories.scheduled_job()
    factories.failed_job(attempt=2)
    factories.running_job(attempt=3)
    factories.running_job(lease_expired_by=MINUTE)
    factories.completed_job()
    factories.dead_job()
    factories.cancelled_job()

    assert check_invariants(connection) == []


VIOLATIONS = {
    "I04": "INSERT INTO jobs_active (id, epoch, created_at, scheduled_at, status, job_name) "
    "SELECT id, 1, created_at, scheduled_at, 'scheduled', job_name FROM jobs_completed",
    "I05": "UPDATE job_attempts SET finished_at = started_at + interval '1 day' WHERE claim = 1",
    "I06": "DELETE FROM job_attempts WHERE claim = 2",
    "I07": "UPDATE jobs_completed SET max_attempts = 2 WHERE status = 'dead'",
    "I08": "UPDATE jobs_completed SET locked_by = NULL WHERE status = 'completed'",
    "I09": "UPDATE job_attempts SET outcome = 'snoozed' WHERE claim = 3",
    "I10": "UPDATE job_attempts SET fence_token = 7 WHERE claim < 3",
    "I11": "UPDATE job_attempts SET started_at = started_at - interval '1 day' WHERE claim = 2",
    "I14": "INSERT INTO tenant_config (tenant_id, max_concurrent_jobs) VALUES (5, 0)",
    "I15": "INSERT INTO cron_runs (schedule_id, slot_at, job_id) VALUES (1, now(), 0)",
    "I16": "UPDATE job_attempts SET tenant_id = 6",
    "I17": "UPDATE jobs_active SET fence_token = (SELECT max(fence_token) FROM job_attempts "
    "WHERE job_id = jobs_active.id) WHERE status = 'running'",
    "I01": "INSERT INTO ledger.enqueued VALUES (0, '')",
    "I02": "INSERT INTO ledger.rolled_back VALUES ('void')",
    "I03": "DELETE FROM ledger.enqueued",
    "I12": "INSERT INTO ledger.executed VALUES (1, 1, 'start')",
    "I13": "DELETE FROM ledger.executed",
    "I18": "INSERT INTO ledger.cancelled SELECT id, generation FROM jobs_active",
    "L01": "UPDATE jobs_active SET lease_expires = now() - interval '1 hour' "
    "WHERE status = 'running'",
    "L02": "UPDATE jobs_active SET epoch = 0",
}


@pytest.mark.parametrize("name", sorted(VIOLATIONS))
def test_a_violation_is_seen(connection, name):
    make_ledger(connection)
    factories.running_job(tenant_id=5, attempt=2, payload={"token": "void"})
    factories.dead_job()
    factories.completed_job()
    connection.execute(
        "INSERT INTO ledger.enqueued "
        "SELECT id FROM jobs_active UNION ALL SELECT id FROM jobs_completed"
    )
    connection.execute(
        "INSERT INTO ledger.executed SELECT id, fence_token, 'end' FROM jobs_completed "
        "WHERE status = 'completed'"
    )
    assert violated(connection, ledger=True, quiet=True) == []

    connection.execute(VIOLATIONS[name])

    assert name in violated(connection, ledger=True, quiet=True)


def test_every_invariant_has_a_violation():
    assert {invariant.name.split()[0] for invariant in invariants()} == set(VIOLATIONS)
