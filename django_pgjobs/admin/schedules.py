"""Recurring jobs: to add, edit, enable and disable."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import get_settings
from ..definitions.definition import MAX_NAME_BYTES, queue_problems
from ..definitions.payloads import encode_payload
from ..definitions.registry import registry
from ..definitions.timetables import read_timetable
from ..exceptions import InvalidPayload, InvalidSchedule
from ..models import CronSchedule
from .base import ConfigAdmin, may_see_payloads

#: What decides when a schedule is due next.
_TIMING = frozenset({"cron_expression", "timezone", "enabled"})


class PayloadField(forms.JSONField):
    """A JSON text, shown again as it was typed: what it stands for may not be printable."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except RecursionError:
            raise ValidationError(
                self.error_messages["invalid"], code="invalid", params={"value": "…"}
            ) from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        return initial if self.disabled else InvalidJSONInput(data or "")


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A schedule that the scheduler will understand."""

    class Meta:
        model = CronSchedule
        fields: ClassVar[Any] = (
            "name",
            "enabled",
            "cron_expression",
            "timezone",
            "job_name",
            "queue_name",
            "tenant_id",
            "payload",
        )
        field_classes: ClassVar[Any] = {"payload": PayloadField}
        widgets: ClassVar[Any] = {"payload": forms.Textarea({"rows": 8, "cols": 60})}
        help_texts: ClassVar[Any] = {
            "cron_expression": gettext_lazy(
                "Minute, hour, day of the month, month, day of the week: 30 6 * * 1-5."
            ),
            "timezone": gettext_lazy("In which the expression is read, such as Europe/Vienna."),
            "job_name": gettext_lazy("Name of a registered job."),
            "payload": gettext_lazy('The job\'s arguments: a JSON object, such as {"days": 7}.'),
        }

    def clean_job_name(self) -> str:
        name: str = self.cleaned_data["job_name"]
        if len(name.encode()) > MAX_NAME_BYTES:
            raise ValidationError(_("A name has at most %d bytes.") % MAX_NAME_BYTES)
        return name

    def clean_queue_name(self) -> str:
        name: str = self.cleaned_data["queue_name"]
        for problem in queue_problems(name) if name else ():
            raise ValidationError(problem)
        return name

    def clean(self) -> dict[str, Any]:
        """Refuse a schedule that the scheduler would disable."""
        values: dict[str, Any] = super().clean() or {}
        if "cron_expression" in values and "timezone" in values:
            try:
                read_timetable(values["cron_expression"], values["timezone"])
            except InvalidSchedule as error:
                raise ValidationError(str(error)) from None
        return values

    def clean_payload(self) -> dict[str, Any]:
        payload = self.cleaned_data["payload"]
        payload = {} if payload is None else payload
        if not isinstance(payload, dict):
            raise ValidationError(_("The payload must be a JSON object, {…}."))
        try:
            encode_payload(payload, max_bytes=get_settings().max_payload_bytes)
        except InvalidPayload as error:
            raise ValidationError(str(error)) from None
        return payload


@admin.register(CronSchedule)
class CronScheduleAdmin(ConfigAdmin):
    """Schedules."""

    form = ScheduleForm
    list_display = (
        "name",
        "enabled",
        "cron_expression",
        "timezone",
        "job_name",
        "queue_name",
        "next_run_at",
        "last_run_at",
    )
    list_filter = ("enabled",)
    allowed_lookups: ClassVar[frozenset[str]] = frozenset({"enabled__exact"})
    ordering = ("name",)
    sortable_by = ("name", "job_name", "next_run_at")
    readonly_fields = ("next_run_at", "last_run_at", "created_at")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; the payload only for those who may see payloads."""
        fields = [*ScheduleForm.Meta.fields, *(self.readonly_fields if obj else ())]
        return fields if may_see_payloads(request) else [f for f in fields if f != "payload"]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write the schedule; have its next slot worked out again when its timing changed."""
        if change and _TIMING & set(form.changed_data):
            obj.next_run_at = None
        super().save_model(request, obj, form, change)
        if obj.job_name not in registry:
            self.message_user(request, registry.explain_missing(obj.job_name), messages.WARNING)

    def written_fields(self, form: Any) -> list[str]:
        fields = super().written_fields(form)
        return [*fields, "next_run_at"] if _TIMING & set(fields) else fields
