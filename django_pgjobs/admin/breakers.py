"""Circuit breakers: to look at, to open and to close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..administration import operations
from ..models import Breaker
from .base import ReadOnlyAdmin
from .columns import moment


@admin.register(Breaker)
class BreakerAdmin(ReadOnlyAdmin):
    """The breakers that jobs declare, and why they stand as they do."""

    list_display = ("name", "state", "reason", "changed", "retry", "jobs_text")
    list_filter = ()
    ordering = ("name",)
    sortable_by = ("name", "state")
    fields = (
        "name",
        "state",
        "reason",
        "changed",
        "changed_by",
        "retry",
        "jobs_text",
        "failure_ratio",
        "minimum",
        "period",
        "cooldown",
        "probes",
    )
    actions = ("open_breakers", "close_breakers")

    changed = moment("changed_at", gettext_lazy("changed at"))
    retry = moment("retry_at", gettext_lazy("probes from"))

    @admin.display(description=gettext_lazy("jobs"))
    def jobs_text(self, breaker: Breaker) -> str:
        """Return the names of the jobs."""
        return ", ".join(breaker.job_names)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may open and close breakers."""
        return request.user.has_perm(operations.MANAGE_BREAKER)

    @admin.action(description=gettext_lazy("Open selected breakers"), permissions=["manage"])
    def open_breakers(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Keep the jobs of the selected breakers from being claimed."""
        self._act(request, queryset, operations.open_breaker, _("Opened."))

    @admin.action(description=gettext_lazy("Close selected breakers"), permissions=["manage"])
    def close_breakers(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Let the jobs of the selected breakers be claimed again."""
        self._act(request, queryset, operations.close_breaker, _("Closed."))

    def _act(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Any],
        operation: Callable[[Any, str], None],
        entry: str,
    ) -> None:
        breakers = list(queryset)
        for breaker in breakers:
            operation(request.user, breaker.pk)
            self.log_change(request, breaker, entry)
        text = ngettext("%(count)d breaker: ", "%(count)d breakers: ", len(breakers))
        self.message_user(request, text % {"count": len(breakers)} + entry, messages.SUCCESS)
