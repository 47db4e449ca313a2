"""The database refuses rows that make no sense, whoever writes them."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from django_pgjobs.store.schedules import fire_slots
from tests import factories
from tests.store.calls import firing

pytestmark = pytest.mark.django_db

PENDING = "WHERE status = 'pending'"
RUNNING = "WHERE status = 'running'"
LONG = "repeat('x', 256)"

VIOLATIONS = [
    ("jobs_active_status", f"UPDATE jobs_active SET status = 'completed' {PENDING}"),
    ("jobs_active_status", f"UPDATE jobs_active SET status = 'dead' {PENDING}"),
    ("jobs_active_status", f"UPDATE jobs_active SET status = 'cancelled' {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET status = 'running' {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET fence_token = 1 {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET locked_by = 'w' {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET locked_at = now() {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET lease_expires = now() {PENDING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET fence_token = NULL {RUNNING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET locked_by = NULL {RUNNING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET locked_at = NULL {RUNNING}"),
    ("jobs_active_lease", f"UPDATE jobs_active SET lease_expires = NULL {RUNNING}"),
    ("jobs_active_attempt", f"UPDATE jobs_active SET attempt = -1 {PENDING}"),
    ("jobs_active_attempt", f"UPDATE jobs_active SET attempt = 3, claims = 3 {PENDING}"),
    ("jobs_active_attempt", f"UPDATE jobs_active SET attempt = 4, claims = 4 {RUNNING}"),
    ("jobs_active_priority_worth", f"UPDATE jobs_active SET priority_worth = 0 {PENDING}"),
    (
        "jobs_active_priority_worth",
        f"UPDATE jobs_active SET priority_worth = 1::bigint << 47 {PENDING}",
    ),
    ("jobs_active_max_attempts", f"UPDATE jobs_active SET max_attempts = 10001 {PENDING}"),
    ("jobs_active_claims", f"UPDATE jobs_active SET claims = 0 {RUNNING}"),
    ("jobs_active_claims", f"UPDATE jobs_active SET generation = -1 {PENDING}"),
    ("jobs_active_cancel", f"UPDATE jobs_active SET cancel_requested = true {PENDING}"),
    ("jobs_active_progress", f"UPDATE jobs_active SET progress = '{{}}' {PENDING}"),
    ("jobs_active_held", f"UPDATE jobs_active SET held_by = 'x' {PENDING}"),
    ("breakers_state", "UPDATE breakers SET state = 'ajar'"),
    ("breakers_retry_at", "UPDATE breakers SET retry_at = now()"),
    ("jobs_active_names", f"UPDATE jobs_active SET job_name = '' {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET job_name = {LONG} {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET queue_name = '' {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET queue_name = repeat('x', 64) {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET idempotency_key = '' {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET idempotency_key = {LONG} {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET group_key = '' {PENDING}"),
    ("jobs_active_names", f"UPDATE jobs_active SET group_key = {LONG} {PENDING}"),
    ("jobs_active_idempotency", "UPDATE jobs_active SET idempotency_key = 'k'"),
    (
        "jobs_active_pkey",
        f"UPDATE jobs_active SET id = (SELECT max(id) FROM jobs_active) {PENDING}",
    ),
    ("jobs_completed_status", "UPDATE jobs_completed SET status = 'running'"),
    ("job_attempts_outcome", "UPDATE job_attempts SET outcome = 'completed'"),
    ("queue_config_priority_aging", "UPDATE queue_config SET priority_aging = interval '0'"),
    ("queue_config_paused", "UPDATE queue_config SET paused = true"),
    ("queue_config_paused", "UPDATE queue_config SET paused_at = now()"),
    (
        "tenant_config_max_concurrent_jobs",
        "UPDATE tenant_config SET max_concurrent_jobs = -1",
    ),
    (
        "tenant_config_max_enqueue_per_minute",
        "UPDATE tenant_config SET max_enqueue_per_minute = -1",
    ),
    ("tenant_config_priority_boost", "UPDATE tenant_config SET priority_boost = 11"),
    ("tenant_config_quota_weight", "UPDATE tenant_config SET quota_weight = 0"),
    ("tenant_config_quota_weight", "UPDATE tenant_config SET quota_weight = 1001"),
    ("cron_schedules_names", "UPDATE cron_schedules SET name = ''"),
    ("cron_schedules_names", "UPDATE cron_schedules SET job_name = ''"),
    ("cron_schedules_names", "UPDATE cron_schedules SET queue_name = repeat('x', 64)"),
    ("cron_schedules_max_attempts", "UPDATE cron_schedules SET max_attempts = 0"),
    ("cron_schedules_catch_up", "UPDATE cron_schedules SET catch_up = 'all'"),
    ("cron_schedules_catch_up", "UPDATE cron_schedules SET catch_up_limit = 1001"),
    ("cron_schedules_overlap", "UPDATE cron_schedules SET overlap = 'never'"),
    (
        "cron_schedules_overlap",
        "UPDATE cron_schedules SET overlap = 'skip', catch_up = 'catch_up'",
    ),
    ("cron_schedules_jitter", "UPDATE cron_schedules SET jitter = interval '-1 second'"),
    ("cron_schedules_jitter", "UPDATE cron_schedules SET jitter = interval '25 hours'"),
    ("cron_runs_kind", "UPDATE cron_runs SET job_id = NULL"),
    ("cron_runs_kind", "UPDATE cron_runs SET kind = 'skipped'"),
    (
        "job_workers_idle",
        "INSERT INTO job_workers (worker_id, hostname, pid, queues, concurrency, started_at, "
        "heartbeat_at, idle_since) VALUES ('w', 'host', 1, '{default}', 1, now(), now(), now())",
    ),
    (
        "job_workers_idle",
        "INSERT INTO job_workers (worker_id, hostname, pid, queues, concurrency, started_at, "
        "heartbeat_at, idle_queues) VALUES ('w', 'host', 1, '{a}', 1, now(), now(), '{a}')",
    ),
]


@pytest.fixture
def rows():
    factories.pending_job()
    factories.running_job()
    factories.dead_job()
    factories.QueueConfigFactory()
    factories.TenantConfigFactory()
    schedule = factories.CronScheduleFactory()
    fire_slots(connection, [firing(schedule, factories.server_now())])
    factories.BreakerFactory()


@pytest.mark.parametrize(("name", "statement"), VIOLATIONS)
def test_a_row_that_makes_no_sense_is_refused(rows, name, statement):
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        execute(statement)

    cause = refused.value.__cause__
    assert isinstance(cause, psycopg.errors.IntegrityError)
    assert cause.diag.constraint_name == name


def test_every_check_has_a_row_that_it_refuses():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT conname FROM pg_constraint "
            "JOIN pg_class ON pg_class.oid = conrelid AND NOT relispartition "
            "JOIN pg_namespace ON pg_namespace.oid = pg_constraint.connamespace "
            "WHERE contype = 'c' AND nspname = current_schema() "
            "AND (relname LIKE 'job%%' OR relname LIKE '%%_config' OR relname LIKE 'cron%%')",
            [],
        )
        checks = {name for (name,) in cursor.fetchall()}

    assert checks <= {name for name, _ in VIOLATIONS}


def test_the_first_attempt_of_the_last_allowed_number_may_wait():
    factories.failed_job(attempt=2, max_attempts=3)


def test_two_tenants_and_two_jobs_may_use_the_same_key():
    factories.pending_job(idempotency_key="k", tenant_id=1)
    factories.pending_job(idempotency_key="k", tenant_id=2)
    factories.scheduled_job(idempotency_key="k", tenant_id=2, job_name="tests.other")


def test_a_finished_job_holds_no_key():
    factories.completed_job(idempotency_key="k", created_at=factories.server_now())

    factories.scheduled_job(idempotency_key="k", due_in=timedelta(0))


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
