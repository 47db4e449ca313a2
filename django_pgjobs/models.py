"""The tables, as people read them.

The protocol's tables are written by the statements in ``sql/`` only, and guarded by the
named constraints of the migrations; nothing here overrides ``save``.
``tests/schema/test_mirror.py`` compares each field with the catalogue.
"""

from __future__ import annotations

from typing import Any, Self

from django.db import models
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from .conf import get_settings
from .fields import ComputedField, JobStatusField, TextListField
from .states import WAITING, JobStatus, Outcome

#: The expression of ``claim_order``, as the migration has it.
CLAIM_ORDER = (
    "(extract(epoch FROM scheduled_at - '2020-01-01 00:00:00+00'::timestamptz) * 1000)::bigint "
    "- priority * priority_worth"
)


class AliasManager(models.Manager[Any]):
    """Reads from the database named by ``PGJOBS["DATABASE"]``, never from a replica."""

    def get_queryset(self) -> models.QuerySet[Any]:
        queryset = super().get_queryset()
        return queryset if self._db else queryset.using(get_settings().database)


class JobQuerySet(models.QuerySet[Any]):
    """Questions about jobs, as sentences."""

    def waiting(self) -> Self:
        """Return the jobs whose time has not come."""
        return self.filter(status__in=sorted(WAITING))

    def pending(self) -> Self:
        """Return the jobs that may be claimed now."""
        return self.filter(status=JobStatus.PENDING)

    def running(self) -> Self:
        """Return the jobs that a worker has."""
        return self.filter(status=JobStatus.RUNNING)

    def of_queue(self, queue_name: str) -> Self:
        """Return the jobs of one queue."""
        return self.filter(queue_name=queue_name)

    def of_job(self, job_name: str) -> Self:
        """Return the jobs of one definition."""
        return self.filter(job_name=job_name)

    def of_tenant(self, tenant_id: int) -> Self:
        """Return the jobs of one tenant."""
        return self.filter(tenant_id=tenant_id)


JobManager = AliasManager.from_queryset(JobQuerySet)


class BaseJob(models.Model):
    """What an unfinished and a finished job have in common."""

    id = models.BigIntegerField(_("id"), primary_key=True, editable=False)
    tenant_id = models.BigIntegerField(_("tenant"), default=0, help_text=_("0 for none."))
    job_name = models.TextField(_("job"))
    queue_name = models.TextField(_("queue"), default="default")
    priority = models.SmallIntegerField(_("priority"), default=0)
    status = JobStatusField(_("status"))
    payload = models.JSONField(_("payload"), default=dict)
    payload_version = models.SmallIntegerField(_("payload version"), default=1)
    created_at = models.DateTimeField(_("created at"))
    scheduled_at = models.DateTimeField(_("scheduled at"))
    expires_at = models.DateTimeField(_("expires at"), null=True)
    started_at = models.DateTimeField(
        _("started at"), null=True, help_text=_("Start of the first attempt.")
    )
    attempt = models.IntegerField(_("attempt"), default=0)
    max_attempts = models.IntegerField(_("max attempts"), default=3)
    claims = models.IntegerField(
        _("claims"), default=0, help_text=_("Every claim ever made of this job.")
    )
    generation = models.IntegerField(
        _("generation"), default=0, help_text=_("Grows with each redrive.")
    )
    locked_by = models.TextField(_("worker"), null=True)
    locked_at = models.DateTimeField(
        _("locked at"), null=True, help_text=_("Start of the last attempt.")
    )
    fence_token = models.BigIntegerField(_("fence token"), null=True)
    idempotency_key = models.TextField(_("idempotency key"), null=True)
    group_key = models.TextField(_("group key"), null=True)
    meta = models.JSONField(_("meta"), null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.job_name} {self.pk}"


class ActiveJob(BaseJob):
    """A job that is not finished."""

    priority_worth = models.BigIntegerField(
        _("priority worth"),
        default=2**46,
        help_text=_("What a step of priority is worth, in milliseconds of waiting."),
    )
    claim_order = ComputedField(
        verbose_name=_("claim order"),
        expression=RawSQL(CLAIM_ORDER, ()),  # noqa: S611 - a constant
        output_field=models.BigIntegerField(),
        db_persist=True,
    )
    epoch = models.BigIntegerField(_("epoch"))
    lease_expires = models.DateTimeField(_("lease expires"), null=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)

    objects = JobManager()

    class Meta:
        db_table = "jobs_active"
        verbose_name = _("active job")
        verbose_name_plural = _("active jobs")
        permissions = (
            ("cancel_job", _("Can cancel jobs")),
            ("redrive_job", _("Can redrive dead and cancelled jobs")),
            ("view_payload", _("Can see payloads and results")),
        )


class CompletedJob(BaseJob):
    """A job that is finished: completed, dead or cancelled. Partitioned by day."""

    completed_at = models.DateTimeField(_("completed at"))
    error_class = models.TextField(_("error class"), null=True)
    error_message = models.TextField(_("error message"), null=True)
    result = models.JSONField(_("result"), null=True)

    objects = JobManager()

    class Meta:
        managed = False
        db_table = "jobs_completed"
        verbose_name = _("finished job")
        verbose_name_plural = _("finished jobs")


class JobAttempt(models.Model):
    """An attempt that did not succeed. Partitioned by day.

    The declared key is a stand-in: the table's own is (job_id, claim, finished_at).
    """

    fence_token = models.BigIntegerField(_("fence token"), primary_key=True)
    job_id = models.BigIntegerField(_("job id"))
    tenant_id = models.BigIntegerField(_("tenant"))
    claim = models.IntegerField(_("claim"))
    generation = models.IntegerField(_("generation"))
    attempt = models.IntegerField(_("attempt"))
    job_name = models.TextField(_("job"))
    queue_name = models.TextField(_("queue"))
    worker_id = models.TextField(_("worker"))
    started_at = models.DateTimeField(_("started at"))
    finished_at = models.DateTimeField(_("finished at"))
    outcome = models.TextField(_("outcome"), choices=Outcome.choices)
    error_class = models.TextField(_("error class"), null=True)
    error_message = models.TextField(_("error message"), null=True)
    traceback = models.TextField(_("traceback"), null=True)
    fingerprint = models.TextField(_("fingerprint"), null=True)

    objects = AliasManager()

    class Meta:
        managed = False
        db_table = "job_attempts"
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")

    def __str__(self) -> str:
        return f"claim {self.claim} of {self.job_name} {self.job_id}"


class QueueConfig(models.Model):
    """What operators have set for a queue. A queue needs no row to exist."""

    queue_name = models.TextField(_("queue"), primary_key=True)
    paused = models.BooleanField(_("paused"), default=False)
    paused_at = models.DateTimeField(_("paused at"), null=True, blank=True)
    paused_by = models.TextField(_("paused by"), default="", blank=True)
    priority_aging = models.DurationField(
        _("priority aging"),
        null=True,
        blank=True,
        help_text=_(
            "How long a job has to wait to count as much as a new one of the next higher "
            "priority; empty for strict order. Applies to jobs enqueued from now on."
        ),
    )

    objects = AliasManager()

    class Meta:
        db_table = "queue_config"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions = (("pause_queue", _("Can pause and resume queues")),)

    def __str__(self) -> str:
        return self.queue_name


class TenantConfig(models.Model):
    """What operators have set for a tenant. A tenant needs no row to be served."""

    tenant_id = models.BigIntegerField(_("tenant"), primary_key=True)
    max_concurrent_jobs = models.IntegerField(
        _("max concurrent jobs"), null=True, blank=True, help_text=_("Empty for no cap.")
    )
    max_enqueue_per_minute = models.IntegerField(
        _("max enqueue per minute"), null=True, blank=True, help_text=_("Empty for no limit.")
    )
    quota_weight = models.IntegerField(
        _("quota weight"), default=10, help_text=_("Share of the workers, 1 to 1000.")
    )
    priority_boost = models.SmallIntegerField(
        _("priority boost"),
        default=0,
        help_text=_("Each step doubles the share, or halves it; -10 to 10."),
    )

    objects = AliasManager()

    class Meta:
        db_table = "tenant_config"
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")

    def __str__(self) -> str:
        return str(self.tenant_id)


class CronSchedule(models.Model):
    """A recurring definition: enqueues its job at each slot of a cron expression."""

    id = models.BigAutoField(_("id"), primary_key=True)
    name = models.TextField(_("name"), unique=True)
    job_name = models.TextField(_("job"))
    cron_expression = models.TextField(_("cron expression"))
    timezone = models.TextField(_("time zone"), default="UTC")
    tenant_id = models.BigIntegerField(_("tenant"), default=0, help_text=_("0 for none."))
    queue_name = models.TextField(
        _("queue"), default="", blank=True, help_text=_("Empty for the job's own.")
    )
    payload = models.JSONField(_("payload"), default=dict, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    last_run_at = models.DateTimeField(_("last run at"), null=True, blank=True, editable=False)
    next_run_at = models.DateTimeField(_("next run at"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = AliasManager()

    class Meta:
        db_table = "cron_schedules"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")

    def __str__(self) -> str:
        return self.name


class JobWorker(models.Model):
    """The presence of a worker process."""

    worker_id = models.TextField(_("worker"), primary_key=True)
    hostname = models.TextField(_("host name"))
    pid = models.IntegerField(_("process id"))
    queues = TextListField(_("queues"))
    concurrency = models.IntegerField(_("concurrency"))
    running = models.IntegerField(_("running"), default=0)
    started_at = models.DateTimeField(_("started at"))
    heartbeat_at = models.DateTimeField(_("heartbeat at"))
    channel = models.TextField(_("channel"), null=True)
    idle_since = models.DateTimeField(_("idle since"), null=True)

    objects = AliasManager()

    class Meta:
        db_table = "job_workers"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.worker_id
