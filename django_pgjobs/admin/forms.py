"""The form of a schedule."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..conf import get_settings
from ..definitions.definition import MAX_NAME_BYTES
from ..definitions.payloads import decode_payload, encode_payload
from ..definitions.registry import registry
from ..definitions.schedules import ScheduleOptions
from ..exceptions import InvalidPayload, InvalidSchedule, UndecodablePayload
from ..models import CronSchedule

#: Fields of the form by the options that say the same.
_OPTIONS = {
    "cron_expression": "cron",
    "timezone": "timezone",
    "tenant_id": "tenant",
    "priority": "priority",
    "max_attempts": "max_attempts",
    "catch_up": "catch_up",
    "catch_up_limit": "catch_up_limit",
    "overlap": "overlap",
    "jitter": "jitter",
}


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
            "tenant_id",
            "payload",
            "queue_name",
            "priority",
            "max_attempts",
            "catch_up",
            "catch_up_limit",
            "overlap",
            "jitter",
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

    def clean_name(self) -> str:
        return _name(self.cleaned_data["name"])

    def clean_job_name(self) -> str:
        return _name(self.cleaned_data["job_name"])

    def clean_queue_name(self) -> str:
        name: str = self.cleaned_data["queue_name"]
        if name:
            _refuse_invalid(cron="@daily", queue=name)
        return name

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

    def clean(self) -> dict[str, Any]:
        """Refuse a schedule that could not be fired, or whose job would refuse its arguments."""
        values: dict[str, Any] = super().clean() or {}
        if not self.errors:
            _refuse_invalid(**{_OPTIONS[name]: values[name] for name in _OPTIONS})
            self._check_arguments(values)
        return values

    def _check_arguments(self, values: dict[str, Any]) -> None:
        definition = registry.find(values["job_name"])
        if definition is None:
            return
        # Who may not see the payload does not get the field, but may give it to another job.
        payload = values.get("payload", self.instance.payload)
        try:
            arguments = definition.bind((), decode_payload(json.dumps(payload)))
            limit = get_settings().max_payload_bytes
            # As the schema of the job has them.
            encoded = json.loads(encode_payload(arguments, max_bytes=limit))
        except (InvalidPayload, UndecodablePayload) as error:
            raise ValidationError(str(error)) from None
        if "payload" in values:
            values["payload"] = encoded
        self.instance.payload_version = definition.payload_version


def _name(name: str) -> str:
    if len(name.encode()) > MAX_NAME_BYTES:
        raise ValidationError(_("A name has at most %d bytes.") % MAX_NAME_BYTES)
    return name


def _refuse_invalid(**options: Any) -> None:
    try:
        ScheduleOptions(**options)
    except InvalidSchedule as error:
        raise ValidationError(str(error)) from None
