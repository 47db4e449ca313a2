"""What the pages of unfinished and of finished jobs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from ..models import JobAttempt
from .base import ReadOnlyAdmin, may_see_payloads
from .changelists import JobChangeList
from .columns import JobColumns
from .search import SearchError, parse

#: Attempts shown on the page of a job, the newest.
ATTEMPTS_SHOWN = 100

#: Columns of attempts that only some may see.
PRIVATE_OF_ATTEMPTS = ("error_message", "traceback")


class JobAdmin(JobColumns, ReadOnlyAdmin):
    """A list of jobs, and the page of each with its whole history."""

    ordering = ("-id",)
    sortable_by = ()
    # Shows the box; what it finds is decided in get_search_results.
    search_fields = ("id",)
    change_list_template = "pgjobs/list.html"
    change_form_template = "pgjobs/job.html"

    #: Rows that one page may examine when no index answers its filters alone.
    rows_per_look: ClassVar[int] = 100_000
    #: Columns that only some may see, and no list reads.
    private_fields: ClassVar[tuple[str, ...]]
    #: Words of the search box.
    words: ClassVar[dict[str, str]]
    #: Model whose table holds the job when this one does not.
    counterpart: ClassVar[type[models.Model]]
    #: What the page of a job shows to everybody, and to those who may see payloads.
    public_fieldsets: ClassVar[Any]
    private_fieldsets: ClassVar[Any]
    #: Name and label of the one action.
    action: ClassVar[tuple[str, Any]]

    class Media:
        css: ClassVar[Any] = {"all": ["pgjobs/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[JobChangeList]:
        return JobChangeList

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        queryset = super().get_queryset(request)
        return queryset if may_see_payloads(request) else queryset.defer(*self.private_fields)

    # Finding

    def parse_search(self, text: str) -> dict[str, Any]:
        """Return the conditions of a search.

        Raises:
            SearchError: it is no search.
        """
        return parse(text, self.words)

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        try:
            return queryset.filter(**self.parse_search(search_term)), False
        except SearchError as error:
            self.message_user(request, str(error), messages.WARNING)
            return queryset.none(), False

    def implied_conditions(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """Return what follows from ``conditions`` and helps the planner."""
        return {}

    def leading_conditions(self, conditions: dict[str, Any]) -> dict[str, Any]:
        """Return those of ``conditions`` that an index answers in the order of ids."""
        raise NotImplementedError

    # Reading

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        private = self.private_fieldsets if may_see_payloads(request) else ()
        return (*self.public_fieldsets, *private)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Show a job, or follow it: between two looks it may have finished or been redriven."""
        url = self._url_elsewhere(request, object_id)
        if url is not None:
            return HttpResponseRedirect(url)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        job = context["original"]
        attempts = self._attempts_of(request, job)
        context |= {
            "attempts": attempts[:ATTEMPTS_SHOWN],
            "has_older_attempts": len(attempts) > ATTEMPTS_SHOWN,
            "may_see_payloads": may_see_payloads(request),
            "action": self._offered_action(request, job),
            "title": str(job),
            "subtitle": None,
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def is_actionable(self, job: Any) -> bool:
        """Tell whether the action makes sense for ``job``."""
        raise NotImplementedError

    def _offered_action(self, request: HttpRequest, job: Any) -> tuple[str, Any] | None:
        name, label = self.action
        is_offered = name in self.get_actions(request) and self.is_actionable(job)
        return (name, label) if is_offered else None

    def _attempts_of(self, request: HttpRequest, job: Any) -> list[JobAttempt]:
        attempts = JobAttempt.objects.filter(job_id=job.pk).order_by("-claim")
        if not may_see_payloads(request):
            attempts = attempts.defer(*PRIVATE_OF_ATTEMPTS)
        return list(attempts[: ATTEMPTS_SHOWN + 1])

    def _url_elsewhere(self, request: HttpRequest, object_id: str | None) -> str | None:
        other = self.admin_site._registry.get(self.counterpart)
        if other is None or object_id is None or not other.has_view_permission(request):
            return None
        if self.get_object(request, object_id) or not other.get_object(request, object_id):
            return None
        name = f"{self.admin_site.name}:django_pgjobs_{self.counterpart._meta.model_name}_change"
        return reverse(name, args=[object_id])

    # Acting

    def response_action(
        self, request: HttpRequest, queryset: models.QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Act on what was selected, whether or not it still matches the list's filters."""
        return super().response_action(request, self.get_queryset(request), *args, **kwargs)

    def selected_jobs(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> tuple[list[Any], int]:
        """Return the selected jobs that this table still holds, and how many it does not.

        Only checkboxes count: "select across" would name millions of rows.
        """
        keys = set(map(int, request.POST.getlist(ACTION_CHECKBOX_NAME)))
        jobs = list(queryset.filter(pk__in=keys).order_by("pk").only("pk", "job_name"))
        return jobs, len(keys) - len(jobs)

    def tell(self, request: HttpRequest, *sentences: tuple[int, int, str]) -> None:
        """Show a message for each (level, count, sentence) whose count is above zero."""
        for level, count, sentence in sentences:
            if count:
                self.message_user(request, sentence % {"count": count}, level)

    def log_acts(self, request: HttpRequest, jobs: Sequence[Any], message: str) -> None:
        """Enter an act on ``jobs`` into the admin's log."""
        user: Any = request.user
        LogEntry.objects.log_actions(
            user_id=user.pk,
            queryset=jobs,
            action_flag=CHANGE,
            change_message=message,
        )
