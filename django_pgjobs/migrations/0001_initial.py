"""The tables, from ``sql/0001_initial.up.sql``; what they mean to Django is listed here."""

from __future__ import annotations

from datetime import timedelta

from django.db import migrations, models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from django_pgjobs import fields

from ._sql import RunNamedSQL

STATE_OPERATIONS = [
    migrations.CreateModel(
        name="CompletedJob",
        fields=[
            (
                "id",
                models.BigIntegerField(
                    editable=False, primary_key=True, serialize=False, verbose_name="id"
                ),
            ),
            (
                "tenant_id",
                models.BigIntegerField(default=0, help_text="0 for none.", verbose_name="tenant"),
            ),
            ("job_name", models.TextField(verbose_name="job")),
            ("queue_name", models.TextField(default="default", verbose_name="queue")),
            ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
            ("status", fields.JobStatusField(verbose_name="status")),
            ("payload", models.JSONField(default=dict, verbose_name="payload")),
            (
                "payload_version",
                models.SmallIntegerField(default=1, verbose_name="payload version"),
            ),
            ("created_at", models.DateTimeField(verbose_name="created at")),
            ("scheduled_at", models.DateTimeField(verbose_name="scheduled at")),
            ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
            (
                "started_at",
                models.DateTimeField(
                    help_text="Start of the first attempt.", null=True, verbose_name="started at"
                ),
            ),
            ("attempt", models.IntegerField(default=0, verbose_name="attempt")),
            ("max_attempts", models.IntegerField(default=3, verbose_name="max attempts")),
            (
                "claims",
                models.IntegerField(
                    default=0,
                    help_text="Every claim ever made of this job.",
                    verbose_name="claims",
                ),
            ),
            (
                "generation",
                models.IntegerField(
                    default=0, help_text="Grows with each redrive.", verbose_name="generation"
                ),
            ),
            ("locked_by", models.TextField(null=True, verbose_name="worker")),
            (
                "locked_at",
                models.DateTimeField(
                    help_text="Start of the last attempt.", null=True, verbose_name="locked at"
                ),
            ),
            ("fence_token", models.BigIntegerField(null=True, verbose_name="fence token")),
            ("idempotency_key", models.TextField(null=True, verbose_name="idempotency key")),
            ("group_key", models.TextField(null=True, verbose_name="group key")),
            ("meta", models.JSONField(null=True, verbose_name="meta")),
            ("completed_at", models.DateTimeField(verbose_name="completed at")),
            ("error_class", models.TextField(null=True, verbose_name="error class")),
            ("error_message", models.TextField(null=True, verbose_name="error message")),
            ("fingerprint", models.TextField(null=True, verbose_name="fingerprint")),
            ("result", models.JSONField(null=True, verbose_name="result")),
        ],
        options={
            "verbose_name": "finished job",
            "verbose_name_plural": "finished jobs",
            "db_table": "jobs_completed",
            "managed": False,
        },
    ),
    migrations.CreateModel(
        name="JobAttempt",
        fields=[
            (
                "fence_token",
                models.BigIntegerField(
                    primary_key=True, serialize=False, verbose_name="fence token"
                ),
            ),
            ("job_id", models.BigIntegerField(verbose_name="job id")),
            ("tenant_id", models.BigIntegerField(verbose_name="tenant")),
            ("claim", models.IntegerField(verbose_name="claim")),
            ("generation", models.IntegerField(verbose_name="generation")),
            ("attempt", models.IntegerField(verbose_name="attempt")),
            ("job_name", models.TextField(verbose_name="job")),
            ("queue_name", models.TextField(verbose_name="queue")),
            ("worker_id", models.TextField(verbose_name="worker")),
            ("started_at", models.DateTimeField(verbose_name="started at")),
            ("finished_at", models.DateTimeField(verbose_name="finished at")),
            (
                "outcome",
                models.TextField(
                    choices=[
                        ("completed", "completed"),
                        ("failed", "failed"),
                        ("timeout", "timed out"),
                        ("lost", "lost"),
                        ("snoozed", "snoozed"),
                        ("released", "released"),
                        ("cancelled", "cancelled"),
                    ],
                    verbose_name="outcome",
                ),
            ),
            ("error_class", models.TextField(null=True, verbose_name="error class")),
            ("error_message", models.TextField(null=True, verbose_name="error message")),
            ("traceback", models.TextField(null=True, verbose_name="traceback")),
            ("fingerprint", models.TextField(null=True, verbose_name="fingerprint")),
        ],
        options={
            "verbose_name": "attempt",
            "verbose_name_plural": "attempts",
            "db_table": "job_attempts",
            "managed": False,
        },
    ),
    migrations.CreateModel(
        name="ActiveJob",
        fields=[
            (
                "id",
                models.BigIntegerField(
                    editable=False, primary_key=True, serialize=False, verbose_name="id"
                ),
            ),
            (
                "tenant_id",
                models.BigIntegerField(default=0, help_text="0 for none.", verbose_name="tenant"),
            ),
            ("job_name", models.TextField(verbose_name="job")),
            ("queue_name", models.TextField(default="default", verbose_name="queue")),
            ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
            ("status", fields.JobStatusField(verbose_name="status")),
            ("payload", models.JSONField(default=dict, verbose_name="payload")),
            (
                "payload_version",
                models.SmallIntegerField(default=1, verbose_name="payload version"),
            ),
            ("created_at", models.DateTimeField(verbose_name="created at")),
            ("scheduled_at", models.DateTimeField(verbose_name="scheduled at")),
            ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
            (
                "started_at",
                models.DateTimeField(
                    help_text="Start of the first attempt.", null=True, verbose_name="started at"
                ),
            ),
            ("attempt", models.IntegerField(default=0, verbose_name="attempt")),
            ("max_attempts", models.IntegerField(default=3, verbose_name="max attempts")),
            (
                "claims",
                models.IntegerField(
                    default=0,
                    help_text="Every claim ever made of this job.",
                    verbose_name="claims",
                ),
            ),
            (
                "generation",
                models.IntegerField(
                    default=0, help_text="Grows with each redrive.", verbose_name="generation"
                ),
            ),
            ("locked_by", models.TextField(null=True, verbose_name="worker")),
            (
                "locked_at",
                models.DateTimeField(
                    help_text="Start of the last attempt.", null=True, verbose_name="locked at"
                ),
            ),
            ("fence_token", models.BigIntegerField(null=True, verbose_name="fence token")),
            ("idempotency_key", models.TextField(null=True, verbose_name="idempotency key")),
            ("group_key", models.TextField(null=True, verbose_name="group key")),
            ("meta", models.JSONField(null=True, verbose_name="meta")),
            (
                "priority_worth",
                models.BigIntegerField(
                    default=70368744177664,
                    help_text="What a step of priority is worth, in milliseconds of waiting.",
                    verbose_name="priority worth",
                ),
            ),
            (
                "claim_order",
                fields.ComputedField(
                    db_persist=True,
                    expression=RawSQL(
                        "(extract(epoch FROM scheduled_at - '2020-01-01 00:00:00+00'::timestamptz)"
                        " * 1000)::bigint - priority * priority_worth",
                        (),
                    ),
                    output_field=models.BigIntegerField(),
                    verbose_name="claim order",
                ),
            ),
            ("epoch", models.BigIntegerField(verbose_name="epoch")),
            ("lease_expires", models.DateTimeField(null=True, verbose_name="lease expires")),
            (
                "losses",
                models.SmallIntegerField(
                    default=0,
                    help_text="Processes lost with it, since an attempt last ended in order.",
                    verbose_name="losses",
                ),
            ),
            (
                "cancel_requested",
                models.BooleanField(default=False, verbose_name="cancel requested"),
            ),
            ("progress", models.JSONField(null=True, verbose_name="progress")),
            ("is_probe", models.BooleanField(default=False, verbose_name="is a probe")),
            ("held_by", models.TextField(null=True, verbose_name="held by the breaker")),
        ],
        options={
            "verbose_name": "active job",
            "verbose_name_plural": "active jobs",
            "db_table": "jobs_active",
            "permissions": (
                ("cancel_job", "Can cancel jobs"),
                ("redrive_job", "Can redrive dead and cancelled jobs"),
                ("view_payload", "Can see payloads and results"),
            ),
        },
    ),
    migrations.CreateModel(
        name="Breaker",
        fields=[
            ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
            ("job_names", fields.TextListField(verbose_name="jobs")),
            (
                "state",
                models.TextField(
                    choices=[("closed", "closed"), ("open", "open"), ("half_open", "half-open")],
                    default="closed",
                    verbose_name="state",
                ),
            ),
            ("reason", models.TextField(blank=True, default="", verbose_name="reason")),
            ("changed_at", models.DateTimeField(db_default=Now(), verbose_name="changed at")),
            ("changed_by", models.TextField(blank=True, default="", verbose_name="changed by")),
            (
                "retry_at",
                models.DateTimeField(
                    help_text="Empty: when somebody closes it.",
                    null=True,
                    verbose_name="probes from",
                ),
            ),
            ("failure_ratio", models.FloatField(verbose_name="failure ratio")),
            ("minimum", models.IntegerField(verbose_name="minimum")),
            ("period", models.DurationField(verbose_name="period")),
            ("cooldown", models.DurationField(verbose_name="cooldown")),
            ("probes", models.IntegerField(verbose_name="probes")),
        ],
        options={
            "verbose_name": "breaker",
            "verbose_name_plural": "breakers",
            "db_table": "breakers",
            "permissions": (("manage_breaker", "Can open and close breakers"),),
        },
    ),
    migrations.CreateModel(
        name="CronSchedule",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False, verbose_name="id")),
            ("name", models.TextField(verbose_name="name")),
            ("job_name", models.TextField(verbose_name="job")),
            ("cron_expression", models.TextField(verbose_name="cron expression")),
            ("timezone", models.TextField(default="UTC", verbose_name="time zone")),
            (
                "tenant_id",
                models.BigIntegerField(default=0, help_text="0 for none.", verbose_name="tenant"),
            ),
            (
                "queue_name",
                models.TextField(
                    blank=True,
                    default="",
                    help_text="Empty for the job's own.",
                    verbose_name="queue",
                ),
            ),
            (
                "priority",
                models.SmallIntegerField(
                    blank=True,
                    help_text="Empty for the job's own.",
                    null=True,
                    verbose_name="priority",
                ),
            ),
            (
                "max_attempts",
                models.IntegerField(
                    blank=True,
                    help_text="Empty for the job's own.",
                    null=True,
                    verbose_name="max attempts",
                ),
            ),
            ("payload", models.JSONField(blank=True, default=dict, verbose_name="payload")),
            (
                "payload_version",
                models.SmallIntegerField(default=1, verbose_name="payload version"),
            ),
            (
                "catch_up",
                models.TextField(
                    choices=[
                        ("skip", "skip them but for the latest"),
                        ("catch_up", "fire each of them"),
                        ("collapse", "fire one job for all of them"),
                    ],
                    default="skip",
                    verbose_name="missed slots",
                ),
            ),
            (
                "catch_up_limit",
                models.IntegerField(
                    default=100,
                    help_text="How many slots to fire late, or to tell a job of; 1 to 1000.",
                    verbose_name="most missed slots",
                ),
            ),
            (
                "overlap",
                models.TextField(
                    choices=[
                        ("allow", "fire it"),
                        ("skip", "skip it"),
                        ("queue_one", "fire the latest when the job has finished"),
                    ],
                    default="allow",
                    verbose_name="while the last job is unfinished",
                ),
            ),
            (
                "jitter",
                models.DurationField(
                    default=timedelta(0),
                    help_text="Jobs start up to so much later than their slots; at most a day.",
                    verbose_name="jitter",
                ),
            ),
            ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
            (
                "owner",
                models.TextField(
                    blank=True, default="", editable=False, verbose_name="declared by"
                ),
            ),
            (
                "removed_at",
                models.DateTimeField(
                    blank=True, editable=False, null=True, verbose_name="removed from code at"
                ),
            ),
            (
                "active_since",
                models.DateTimeField(
                    db_default=Now(),
                    editable=False,
                    verbose_name="active since",
                ),
            ),
            (
                "last_slot_at",
                models.DateTimeField(
                    blank=True, editable=False, null=True, verbose_name="last slot"
                ),
            ),
            (
                "next_run_at",
                models.DateTimeField(
                    blank=True, editable=False, null=True, verbose_name="next run at"
                ),
            ),
            (
                "queued_slot_at",
                models.DateTimeField(
                    blank=True, editable=False, null=True, verbose_name="queued slot"
                ),
            ),
            (
                "last_run_at",
                models.DateTimeField(
                    blank=True, editable=False, null=True, verbose_name="last run at"
                ),
            ),
            (
                "last_job_id",
                models.BigIntegerField(
                    blank=True, editable=False, null=True, verbose_name="last job"
                ),
            ),
            (
                "problem",
                models.TextField(blank=True, default="", editable=False, verbose_name="problem"),
            ),
            (
                "created_at",
                models.DateTimeField(
                    db_default=Now(),
                    editable=False,
                    verbose_name="created at",
                ),
            ),
        ],
        options={
            "verbose_name": "schedule",
            "verbose_name_plural": "schedules",
            "db_table": "cron_schedules",
            "permissions": (
                ("pause_schedule", "Can pause and resume schedules"),
                ("run_schedule", "Can run schedules at once"),
            ),
            "constraints": [
                models.UniqueConstraint(fields=("name", "tenant_id"), name="cron_schedules_name")
            ],
        },
    ),
    migrations.CreateModel(
        name="JobWorker",
        fields=[
            (
                "worker_id",
                models.TextField(primary_key=True, serialize=False, verbose_name="worker"),
            ),
            ("hostname", models.TextField(verbose_name="host name")),
            ("pid", models.IntegerField(verbose_name="process id")),
            (
                "queues",
                fields.TextListField(verbose_name="queues"),
            ),
            ("concurrency", models.IntegerField(verbose_name="concurrency")),
            ("running", models.IntegerField(default=0, verbose_name="running")),
            ("started_at", models.DateTimeField(verbose_name="started at")),
            ("heartbeat_at", models.DateTimeField(verbose_name="heartbeat at")),
            ("channel", models.TextField(null=True, verbose_name="channel")),
            ("idle_queues", fields.TextListField(default=list, verbose_name="idle for queues")),
            ("idle_since", models.DateTimeField(null=True, verbose_name="idle since")),
        ],
        options={
            "verbose_name": "worker",
            "verbose_name_plural": "workers",
            "db_table": "job_workers",
        },
    ),
    migrations.CreateModel(
        name="QueueConfig",
        fields=[
            (
                "queue_name",
                models.TextField(primary_key=True, serialize=False, verbose_name="queue"),
            ),
            ("paused", models.BooleanField(default=False, verbose_name="paused")),
            ("paused_at", models.DateTimeField(blank=True, null=True, verbose_name="paused at")),
            ("paused_by", models.TextField(blank=True, default="", verbose_name="paused by")),
            (
                "priority_aging",
                models.DurationField(
                    blank=True,
                    help_text=(
                        "How long a job has to wait to count as much as a new one of the next "
                        "higher priority; empty for strict order. Applies to jobs enqueued from "
                        "now on."
                    ),
                    null=True,
                    verbose_name="priority aging",
                ),
            ),
        ],
        options={
            "verbose_name": "queue",
            "verbose_name_plural": "queues",
            "db_table": "queue_config",
            "permissions": (("pause_queue", "Can pause and resume queues"),),
        },
    ),
    migrations.CreateModel(
        name="TenantConfig",
        fields=[
            (
                "tenant_id",
                models.BigIntegerField(primary_key=True, serialize=False, verbose_name="tenant"),
            ),
            (
                "max_concurrent_jobs",
                models.IntegerField(
                    blank=True,
                    help_text="Empty for no cap.",
                    null=True,
                    verbose_name="max concurrent jobs",
                ),
            ),
            (
                "max_enqueue_per_minute",
                models.IntegerField(
                    blank=True,
                    help_text="Empty for no limit.",
                    null=True,
                    verbose_name="max enqueue per minute",
                ),
            ),
            (
                "quota_weight",
                models.IntegerField(
                    default=10,
                    help_text="Share of the workers, 1 to 1000.",
                    verbose_name="quota weight",
                ),
            ),
            (
                "priority_boost",
                models.SmallIntegerField(
                    default=0,
                    help_text="Each step doubles the share, or halves it; -10 to 10.",
                    verbose_name="priority boost",
                ),
            ),
        ],
        options={
            "verbose_name": "tenant",
            "verbose_name_plural": "tenants",
            "db_table": "tenant_config",
        },
    ),
]


class Migration(migrations.Migration):
    """Create the tables of django-pgjobs."""

    initial = True
    dependencies = []
    operations = [RunNamedSQL("0001_initial", state_operations=STATE_OPERATIONS)]
