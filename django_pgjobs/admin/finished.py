"""Finished jobs: to find and to redrive."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..administration import operations
from ..models import ActiveJob, CompletedJob
from ..states import JobStatus
from .bulk import REDRIVE
from .filters import FinishedStatusFilter, JobNameFilter, QueueFilter
from .jobs import JobAdmin
from .search import FINISHED


@admin.register(CompletedJob)
class CompletedJobAdmin(JobAdmin):
    """Jobs that are completed, dead or cancelled."""

    list_display = (
        "id",
        "status_text",
        "job_name",
        "attempt_text",
        "completed_age",
        "error_class",
        "queue_name",
        "tenant_text",
        "duration",
        "locked_by",
    )
    list_filter = (FinishedStatusFilter, QueueFilter, JobNameFilter)
    search_help_text = gettext_lazy(
        "A job's id, or exact values: job:NAME, queue:NAME, tenant:NUMBER, fingerprint:TEXT. "
        "Quote values with spaces."
    )
    actions = ("redrive_jobs",)
    action = ("redrive_jobs", gettext_lazy("Redrive this job"))
    pages = ((REDRIVE.name, REDRIVE.title, REDRIVE.permission, REDRIVE.show),)
    private_fields = ("payload", "meta", "result", "error_message")
    words = FINISHED
    counterpart = ActiveJob
    public_fieldsets: ClassVar[Any] = (
        (None, {"fields": ("status_text", "job_name", "queue_name", "tenant_text", "priority")}),
        (
            gettext_lazy("Execution"),
            {
                "fields": (
                    "attempt_text",
                    "locked_by",
                    "last_started",
                    "duration",
                    "error_class",
                    "fingerprint",
                    "fence_token",
                    "claims",
                    "generation",
                )
            },
        ),
        (
            gettext_lazy("Times"),
            {"fields": ("created", "scheduled", "first_started", "completed", "expires")},
        ),
        (gettext_lazy("Keys"), {"fields": ("idempotency_key", "group_key")}),
    )
    private_fieldsets: ClassVar[Any] = (
        (gettext_lazy("Outcome"), {"fields": ("error_text", "result_text")}),
        (gettext_lazy("Payload"), {"fields": ("payload_text", "payload_version", "meta_text")}),
    )

    def leading_conditions(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """Return the condition of the index that probably leaves the fewest rows."""
        if "id" in conditions:
            return conditions
        # In two partial indexes: completed jobs, and jobs without a tenant, are not.
        missing = {"status": JobStatus.COMPLETED, "tenant_id": 0}
        for field in ("fingerprint", "status", "tenant_id", "job_name", "queue_name"):
            if field in conditions and conditions[field] != missing.get(field):
                return {field: conditions[field]}
        return {}

    def is_actionable(self, job: Any) -> bool:
        return bool(job.status != JobStatus.COMPLETED)

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may redrive jobs."""
        return request.user.has_perm(operations.REDRIVE_JOB)

    @admin.action(description=gettext_lazy("Redrive selected jobs"), permissions=["redrive"])
    def redrive_jobs(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Make dead and cancelled jobs pending again."""
        jobs, gone = self.selected_jobs(request, queryset)
        done = operations.redrive(request.user, [job.pk for job in jobs])
        touched = set(done.redriven)
        self.log_acts(request, [job for job in jobs if job.pk in touched], _("Redriven."))
        redriven, conflicting = len(done.redriven), len(done.conflicting)
        skipped = len(done.skipped) + gone
        self.tell(
            request,
            (
                messages.SUCCESS,
                redriven,
                ngettext("%(count)d job redriven.", "%(count)d jobs redriven.", redriven),
            ),
            (
                messages.WARNING,
                conflicting,
                ngettext(
                    "%(count)d job conflicting: an unfinished job holds its idempotency key.",
                    "%(count)d jobs conflicting: unfinished jobs hold their idempotency keys.",
                    conflicting,
                ),
            ),
            (
                messages.WARNING,
                skipped,
                ngettext(
                    "%(count)d job skipped: it is neither dead nor cancelled.",
                    "%(count)d jobs skipped: they are neither dead nor cancelled.",
                    skipped,
                ),
            ),
        )
