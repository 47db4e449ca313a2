"""Recurring jobs: to add, edit, pause, resume and run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib import admin, messages
from django.db import connections, models
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..administration import schedules
from ..conf import get_settings
from ..definitions.previews import preview
from ..definitions.registry import registry
from ..exceptions import InvalidSchedule, OperationError, PermissionRequired
from ..models import ActiveJob, CompletedJob, CronSchedule
from ..states import JobStatus
from ..store.schedules import SlotRecord, list_slots
from .base import ConfigAdmin, may_see_payloads
from .columns import NOTHING, local_time, moment
from .forms import ScheduleForm

#: Times on the page of a schedule.
_UPCOMING: Final = 10
_RECENT: Final = 20


@admin.register(CronSchedule)
class CronScheduleAdmin(ConfigAdmin):
    """Schedules. Those that code declares can be paused and run here, and changed there."""

    form = ScheduleForm
    list_display = (
        "name",
        "state",
        "tenant_id",
        "cron_expression",
        "timezone",
        "job_name",
        "next_run",
        "last_run",
        "last_outcome",
    )
    list_filter = ("enabled",)
    allowed_lookups: ClassVar[frozenset[str]] = frozenset({"enabled__exact"})
    ordering = ("name", "tenant_id")
    sortable_by = ("name", "job_name")
    readonly_fields = (
        "state",
        "declared_by",
        "next_run",
        "upcoming",
        "last_run",
        "last_outcome",
        "recent",
        "created",
    )
    actions = ("pause_schedules", "resume_schedules", "run_schedules")

    next_run = moment("next_run_at", gettext_lazy("next run"))
    last_run = moment("last_run_at", gettext_lazy("last run"))
    created = moment("created_at", gettext_lazy("created at"))

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Return the schedules, with the status of their last job."""
        job = {"pk": OuterRef("last_job_id")}
        # Only partitions of the days since then can have it.
        finished = CompletedJob.objects.filter(**job, completed_at__gte=OuterRef("last_run_at"))
        rows: models.QuerySet[Any] = super().get_queryset(request)
        told: models.QuerySet[Any] = rows.annotate(
            active_status=Subquery(ActiveJob.objects.filter(**job).values("status")[:1]),
            final_status=Subquery(finished.values("status")[:1]),
        )
        return told

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; the payload only for those who may see payloads."""
        fields = [*ScheduleForm.Meta.fields, *(self.readonly_fields if obj else ())]
        return fields if may_see_payloads(request) else [f for f in fields if f != "payload"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"timezone": settings.TIME_ZONE, **super().get_changeform_initial_data(request)}

    # Rights

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may change a schedule: not one that code declares."""
        return super().has_change_permission(request, obj) and not (obj and obj.owner)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may delete a schedule: not one that a deploy would bring back."""
        is_declared = obj is not None and obj.owner and obj.removed_at is None
        return super().has_delete_permission(request, obj) and not is_declared

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may pause and resume schedules."""
        return request.user.has_perm(schedules.PAUSE_SCHEDULE)

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may run schedules at once."""
        return request.user.has_perm(schedules.RUN_SCHEDULE)

    # Columns

    @admin.display(description=gettext_lazy("state"))
    def state(self, schedule: Any) -> str:
        """Return whether it fires, and what keeps it from doing so."""
        if schedule.removed_at is not None:
            return _("removed from code")
        if not schedule.enabled:
            return _("paused")
        return schedule.problem or _("active")

    @admin.display(description=gettext_lazy("declared by"))
    def declared_by(self, schedule: Any) -> str:
        """Return the code base that declares it."""
        return schedule.owner or NOTHING

    @admin.display(description=gettext_lazy("last outcome"))
    def last_outcome(self, schedule: Any) -> str:
        """Return the status of its last job."""
        status = schedule.active_status or schedule.final_status
        return str(JobStatus(status).label) if status else NOTHING

    @admin.display(description=gettext_lazy("next times"))
    def upcoming(self, schedule: Any) -> str:
        """Return when it is due next, with notes where the clock is changed."""
        try:
            slots = preview(schedule.cron_expression, schedule.timezone, count=_UPCOMING)
        except InvalidSchedule as error:
            return str(error)
        return _lines((f"{slot.at:%a %Y-%m-%d %H:%M:%S %Z}", slot.note) for slot in slots)

    @admin.display(description=gettext_lazy("last slots"))
    def recent(self, schedule: Any) -> str:
        """Return what became of its last slots."""
        connection = connections[get_settings().database]
        records = list_slots(connection, schedule_id=schedule.pk, limit=_RECENT)
        return _lines((local_time(record.slot_at), _told(record)) for record in records) or NOTHING

    # Saving

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write the schedule; let it begin anew when its timing changed."""
        if change and schedules.TIMING & set(form.changed_data):
            for name, value in schedules.restart().items():
                setattr(obj, name, value)
        super().save_model(request, obj, form, change)
        if obj.job_name not in registry:
            self.message_user(request, registry.explain_missing(obj.job_name), messages.WARNING)

    def written_fields(self, form: Any) -> list[str]:
        fields = super().written_fields(form)
        if schedules.TIMING & set(fields):
            fields += schedules.restart()
        if {"payload", "job_name"} & set(fields):
            fields += ["payload_version"]
        return fields

    # Actions

    @admin.action(description=gettext_lazy("Pause selected schedules"), permissions=["pause"])
    def pause_schedules(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Stop the selected schedules."""
        self._act(request, queryset, schedules.pause_schedule, _("Paused."))

    @admin.action(description=gettext_lazy("Resume selected schedules"), permissions=["pause"])
    def resume_schedules(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Let the selected schedules go on."""
        self._act(request, queryset, schedules.resume_schedule, _("Resumed."))

    @admin.action(description=gettext_lazy("Run selected schedules at once"), permissions=["run"])
    def run_schedules(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Enqueue the jobs of the selected schedules."""
        self._act(request, queryset, schedules.run_schedule, _("Run at once."))

    def _act(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Any],
        operation: Callable[[Any, int], Any],
        entry: str,
    ) -> None:
        done = 0
        # In the order in which migrate locks them.
        for schedule in queryset.order_by("pk"):
            try:
                is_done = operation(request.user, schedule.pk)
            except PermissionRequired:
                raise
            except OperationError as error:
                self.message_user(request, str(error), messages.WARNING)
                continue
            if is_done:
                self.log_change(request, schedule, entry)
                done += 1
        text = ngettext("%(entry)s %(count)d schedule.", "%(entry)s %(count)d schedules.", done)
        level = messages.SUCCESS if done else messages.INFO
        self.message_user(request, text % {"entry": entry, "count": done}, level)


def _lines(pairs: Any) -> str:
    return format_html_join("", "<div>{} {}</div>", pairs)


def _told(record: SlotRecord) -> str:
    if record.job_id is None:
        return _("skipped: the last job was unfinished")
    status = JobStatus(record.status).label if record.status else _("gone")
    text = _("job %(id)d: %(status)s") % {"id": record.job_id, "status": status}
    return f"{text}, {_('by hand')}" if record.kind == "manual" else text
