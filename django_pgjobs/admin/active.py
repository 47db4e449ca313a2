"""Unfinished jobs: to find and to cancel."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..administration import operations
from ..definitions.registry import registry
from ..models import ActiveJob, CompletedJob
from ..states import JobStatus
from .bulk import CANCEL
from .filters import JobNameFilter, QueueFilter, UnfinishedStatusFilter
from .jobs import JobAdmin
from .search import UNFINISHED


@admin.register(ActiveJob)
class ActiveJobAdmin(JobAdmin):
    """Jobs that are not finished."""

    list_display = (
        "id",
        "status_text",
        "job_name",
        "attempt_text",
        "age",
        "queue_name",
        "tenant_text",
        "locked_by",
    )
    list_filter = (UnfinishedStatusFilter, QueueFilter, JobNameFilter)
    search_help_text = gettext_lazy(
        "A job's id, or exact values: job:NAME, queue:NAME, tenant:NUMBER, key:TEXT. "
        "Quote values with spaces. A key is looked for in the tenant named, or none."
    )
    actions = ("cancel_jobs",)
    action = ("cancel_jobs", gettext_lazy("Cancel this job"))
    pages = ((CANCEL.name, CANCEL.title, CANCEL.permission, CANCEL.show),)
    private_fields = ("payload", "meta")
    words = UNFINISHED
    counterpart = CompletedJob
    public_fieldsets: ClassVar[Any] = (
        (None, {"fields": ("status_text", "job_name", "queue_name", "tenant_text", "priority")}),
        (
            gettext_lazy("Execution"),
            {
                "fields": (
                    "attempt_text",
                    "locked_by",
                    "last_started",
                    "progress_text",
                    "lease_ends",
                    "fence_token",
                    "claims",
                    "generation",
                )
            },
        ),
        (
            gettext_lazy("Times"),
            {"fields": ("created", "scheduled", "first_started", "expires")},
        ),
        (gettext_lazy("Keys"), {"fields": ("idempotency_key", "group_key", "held_by")}),
    )
    private_fieldsets: ClassVar[Any] = (
        (gettext_lazy("Payload"), {"fields": ("payload_text", "payload_version", "meta_text")}),
    )

    def parse_search(self, text: str) -> dict[str, Any]:
        conditions = super().parse_search(text)
        if "idempotency_key" in conditions:
            # The unique index begins with these two, so the key alone would scan it.
            conditions.setdefault("tenant_id", 0)
            if "job_name" not in conditions:
                conditions["job_name__in"] = [definition.name for definition in registry]
        return conditions

    def implied_conditions(self, conditions: dict[str, Any]) -> dict[str, Any]:
        is_running = conditions.get("status") == JobStatus.RUNNING
        # The predicate of the index of running jobs.
        return {"locked_at__isnull": False} if is_running else {}

    def leading_conditions(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """Every index of this table costs each enqueue, so lists have none of their own.

        A partial index holds the running jobs, and slots of workers bound their number; any
        other filter examines the newest jobs one by one.
        """
        is_small = {"id", "idempotency_key"} & conditions.keys()
        if is_small or conditions.get("status") == JobStatus.RUNNING:
            return conditions
        return {}

    def is_actionable(self, job: Any) -> bool:
        return not job.cancel_requested

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may cancel jobs."""
        return request.user.has_perm(operations.CANCEL_JOB)

    @admin.action(description=gettext_lazy("Cancel selected jobs"), permissions=["cancel"])
    def cancel_jobs(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Cancel what does not run, and ask the workers of what does."""
        jobs, gone = self.selected_jobs(request, queryset)
        done = operations.cancel(request.user, [job.pk for job in jobs])
        touched = {*done.cancelled, *done.requested}
        self.log_acts(request, [job for job in jobs if job.pk in touched], _("Cancelled."))
        cancelled, requested = len(done.cancelled), len(done.requested)
        skipped = len(done.skipped) + gone
        self.tell(
            request,
            (
                messages.SUCCESS,
                cancelled,
                ngettext("%(count)d job cancelled.", "%(count)d jobs cancelled.", cancelled),
            ),
            (
                messages.INFO,
                requested,
                ngettext(
                    "%(count)d job is running; its worker has been asked to stop.",
                    "%(count)d jobs are running; their workers have been asked to stop.",
                    requested,
                ),
            ),
            (
                messages.WARNING,
                skipped,
                ngettext(
                    "%(count)d job skipped: it had finished, or was busy. Try again.",
                    "%(count)d jobs skipped: they had finished, or were busy. Try again.",
                    skipped,
                ),
            ),
        )
