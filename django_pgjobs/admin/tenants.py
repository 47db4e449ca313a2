"""What operators set for tenants."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..models import TenantConfig
from .base import ConfigAdmin


class TenantForm(forms.ModelForm):  # type: ignore[type-arg]
    """A tenant, within the limits of the table's constraints."""

    max_concurrent_jobs = forms.IntegerField(
        label=_("Max concurrent jobs"),
        help_text=_("Empty for no cap."),
        required=False,
        min_value=0,
        max_value=2**31 - 1,
    )
    max_enqueue_per_minute = forms.IntegerField(
        label=_("Max enqueue per minute"),
        help_text=_("Empty for no limit."),
        required=False,
        min_value=0,
        max_value=2**31 - 1,
    )
    quota_weight = forms.IntegerField(
        label=_("Quota weight"),
        help_text=_("Share of the workers, 1 to 1000."),
        initial=10,
        min_value=1,
        max_value=1000,
    )
    priority_boost = forms.IntegerField(
        label=_("Priority boost"),
        help_text=_("Each step doubles the share, or halves it; -10 to 10."),
        initial=0,
        min_value=-10,
        max_value=10,
    )

    class Meta:
        model = TenantConfig
        fields: ClassVar[Any] = "__all__"


@admin.register(TenantConfig)
class TenantConfigAdmin(ConfigAdmin):
    """Tenants with settings of their own; any other tenant is served by the defaults."""

    form = TenantForm
    list_display = (
        "tenant_id",
        "max_concurrent_jobs",
        "max_enqueue_per_minute",
        "quota_weight",
        "priority_boost",
    )
    ordering = ("tenant_id",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A changed key would not rename a row but make a second one."""
        return ("tenant_id",) if obj else ()
