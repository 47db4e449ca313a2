"""Attempts that did not succeed: a list that leads to the pages of their jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..models import ActiveJob, CompletedJob, JobAttempt
from .base import ReadOnlyAdmin
from .changelists import AttemptChangeList
from .columns import moment, span
from .errors import show_error_groups
from .jobs import PRIVATE_OF_ATTEMPTS
from .search import ATTEMPTS, SearchError, parse


@admin.register(JobAttempt)
class JobAttemptAdmin(ReadOnlyAdmin):
    """The list of attempts. An attempt is shown on the page of its job.

    The declared key, the fence token, has no index, so a page of one attempt would scan the
    whole history.
    """

    list_display = (
        "job_link",
        "job_name",
        "attempt",
        "outcome",
        "error_class",
        "started",
        "duration",
        "queue_name",
        "worker_id",
        "claim",
    )
    list_display_links = None
    ordering = ("-job_id", "-claim")
    sortable_by = ()
    search_fields = ("job_id",)
    search_help_text = _("A job's id.")
    change_list_template = "pgjobs/list.html"

    pages = (("errors", _("Errors by kind"), None, show_error_groups),)

    #: Columns that no list reads.
    private_fields: ClassVar[tuple[str, ...]] = PRIVATE_OF_ATTEMPTS

    class Media:
        css: ClassVar[Any] = {"all": ["pgjobs/admin.css"]}

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses of the list and of the errors."""
        names = {f"{self._url_prefix}_{name}" for name in ("changelist", "errors")}
        return [pattern for pattern in super().get_urls() if pattern.name in names]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[AttemptChangeList]:
        return AttemptChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        try:
            return queryset.filter(**parse(search_term, ATTEMPTS)), False
        except SearchError as error:
            self.message_user(request, str(error), messages.WARNING)
            return queryset.none(), False

    def get_list_display(self, request: HttpRequest) -> Any:
        """Link to jobs only for those who may see one of their pages."""
        pages = [self.admin_site._registry.get(model) for model in (ActiveJob, CompletedJob)]
        visible = [page for page in pages if page and page.has_view_permission(request)]
        if not visible:
            return ("job_id", *self.list_display[1:])
        return (_job_link(self.admin_site.name, visible[0].model), *self.list_display[1:])

    started = moment("started_at", _("started at"))

    @admin.display(description=_("duration"))
    def duration(self, attempt: JobAttempt) -> str:
        """Return how long the attempt took."""
        return span(attempt.started_at, attempt.finished_at)

    @admin.display(description=_("job id"))
    def job_link(self, attempt: JobAttempt) -> str:
        """Return the id of the job; see get_list_display."""
        return str(attempt.job_id)


def _job_link(site: str, model: type[models.Model]) -> Any:
    @admin.display(description=_("job id"))
    def link(attempt: JobAttempt) -> SafeString:
        # Whichever table the job is in: one page leads to the other.
        name = f"{site}:django_pgjobs_{model._meta.model_name}_change"
        return format_html(
            '<a href="{}">{}</a>', reverse(name, args=[attempt.job_id]), attempt.job_id
        )

    return link
