"""Jobs and their attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from ..fields import ComputedField, JobStatusField
from ..states import WAITING, JobStatus, Outcome
from .manager import AliasManager

#: The expression of ``claim_order``, as the migration has it.
CLAIM_ORDER = (
    "(extract(epoch FROM scheduled_at - '2020-01-01 00:00:00+00'::timestamptz) * 1000)::bigint "
    "- priority * priority_worth"
)


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

    def history_of(self, job_id: int) -> JobHistory | None:
        """Return a job, unfinished or finished, with every attempt at it; None for no trace.

        The attempts are read last: what the job's row knows of, they hold.
        """
        job = _find_job(job_id)
        attempts = list(JobAttempt.objects.filter(job_id=job_id).order_by("claim"))
        if job is None and not attempts:
            return None
        if job is not None and job.status in _ATTEMPTS_WITHOUT_ROW:
            ended = {attempt.claim for attempt in attempts}
            attempts += [] if job.claims in ended else [_last_attempt(job)]
        return JobHistory(job, attempts)


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
    losses = models.SmallIntegerField(
        _("losses"),
        default=0,
        help_text=_("Processes lost with it, since an attempt last ended in order."),
    )
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    progress = models.JSONField(_("progress"), null=True)
    is_probe = models.BooleanField(_("is a probe"), default=False)
    held_by = models.TextField(_("held by the breaker"), null=True)

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
    fingerprint = models.TextField(_("fingerprint"), null=True)
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

    @property
    def duration(self) -> timedelta | None:
        """How long it took, from its claim to the record of its end; None while it runs."""
        finished_at: datetime | None = self.finished_at
        return None if finished_at is None else finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class JobHistory:
    """Everything there is about one job.

    Attributes:
        job: an ActiveJob or a CompletedJob; None when its retention is over.
        attempts: every attempt, oldest first. The one that runs, and the one that succeeded,
            have no row of their own: they are made of the job's.
    """

    job: Any
    attempts: list[JobAttempt]


#: Statuses whose last attempt is the job's own row.
_ATTEMPTS_WITHOUT_ROW = frozenset({JobStatus.RUNNING, JobStatus.COMPLETED})


def _find_job(job_id: int) -> Any:
    # Twice, because it may move from one table to the other between two looks.
    for model in (ActiveJob, CompletedJob, ActiveJob):
        job = model.objects.filter(pk=job_id).first()
        if job is not None:
            return job
    return None


def _last_attempt(job: Any) -> JobAttempt:
    finished_at: Any = job.completed_at if job.status == JobStatus.COMPLETED else None
    return JobAttempt(
        fence_token=job.fence_token,
        job_id=job.id,
        tenant_id=job.tenant_id,
        claim=job.claims,
        generation=job.generation,
        attempt=job.attempt,
        job_name=job.job_name,
        queue_name=job.queue_name,
        worker_id=job.locked_by,
        started_at=job.locked_at,
        finished_at=finished_at,
        outcome=job.status,
    )
