"""Failed attempts by kind of error: what an operator looks at first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import CompletedJob
from ..observability.errors import error_groups
from .base import may_see_payloads

#: Choices of the time to look back.
PERIODS: Final = {
    "hour": (timedelta(hours=1), gettext_lazy("Last hour")),
    "day": (timedelta(days=1), gettext_lazy("Last day")),
    "week": (timedelta(days=7), gettext_lazy("Last week")),
    "month": (timedelta(days=30), gettext_lazy("Last month")),
}

_GROUPS_AT_MOST: Final = 100


def show_error_groups(page: Any, request: HttpRequest) -> HttpResponse:
    """Return the page of the kinds of errors.

    Args:
        page: the admin of attempts.
        request: may name a period.

    Raises:
        PermissionDenied: the user may not see attempts.
    """
    if not page.has_view_permission(request):
        raise PermissionDenied
    chosen = request.GET.get("period", "day")
    period, _ignored = PERIODS.get(chosen, PERIODS["day"])
    context = {
        **page.admin_site.each_context(request),
        "title": _("Errors"),
        "opts": page.opts,
        "groups": error_groups(within=period, limit=_GROUPS_AT_MOST),
        "periods": [(name, title, name == chosen) for name, (_, title) in PERIODS.items()],
        "may_see_payloads": may_see_payloads(request),
        "may_see_jobs": _may_see_jobs(page, request),
        "media": page.media,
    }
    request.current_app = page.admin_site.name
    return TemplateResponse(request, "pgjobs/errors.html", context)


def _may_see_jobs(page: Any, request: HttpRequest) -> bool:
    other = page.admin_site._registry.get(CompletedJob)
    return other is not None and bool(other.has_view_permission(request))
