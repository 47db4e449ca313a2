"""Queues that operators have set something for: pause, resume, priorities that age."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import escape
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..administration import operations
from ..conf import get_settings
from ..definitions.definition import queue_problems
from ..models import QueueConfig
from .base import ReadOnlyAdmin
from .filters import known_queues

#: Within the table's constraint.
SHORTEST_AGING: Final = timedelta(milliseconds=1)
LONGEST_AGING: Final = timedelta(days=365_000)


class PauseForm(forms.ModelForm):  # type: ignore[type-arg]
    """The name of a queue to pause, which need not have a row yet."""

    class Meta:
        model = QueueConfig
        fields = ("queue_name",)

    def clean_queue_name(self) -> str:
        name: str = self.cleaned_data["queue_name"]
        for problem in queue_problems(name):
            raise forms.ValidationError(problem)
        return name

    def validate_unique(self) -> None:
        """Accept a queue that has a row."""


class AgingForm(forms.ModelForm):  # type: ignore[type-arg]
    """How fast the priorities of a queue age."""

    class Meta:
        model = QueueConfig
        fields = ("priority_aging",)

    def clean_priority_aging(self) -> timedelta | None:
        aging: timedelta | None = self.cleaned_data["priority_aging"]
        if aging is not None and not SHORTEST_AGING <= aging <= LONGEST_AGING:
            raise forms.ValidationError(
                _("Between one millisecond and a thousand years, or empty for strict order.")
            )
        return aging


@admin.register(QueueConfig)
class QueueConfigAdmin(ReadOnlyAdmin):
    """Queues with a row. Adding one is pausing it; any other queue simply runs."""

    form = AgingForm
    list_display = ("queue_name", "paused", "paused_at", "paused_by", "priority_aging")
    ordering = ("queue_name",)
    sortable_by = ("queue_name",)
    fields = ("queue_name", "paused", "paused_at", "paused_by", "priority_aging")
    actions = ("pause_queues", "resume_queues")
    change_list_template = "pgjobs/queues.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_pause_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may say how priorities age."""
        return request.user.has_perm("django_pgjobs.change_queueconfig")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may pause and resume queues."""
        return request.user.has_perm(operations.PAUSE_QUEUE)

    def formfield_for_dbfield(
        self, db_field: models.Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        # The templates of the admin print help texts as markup.
        if db_field.name == "queue_name":
            known = escape(", ".join(known_queues()))
            kwargs["help_text"] = _(
                "Workers stop claiming its jobs; running ones go on. Known queues: %(queues)s."
            ) % {"queues": known}
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ("queue_name",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if name != "priority_aging"] if obj else ()

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(
            request, obj, change, **({} if obj else {"form": PauseForm}) | kwargs
        )

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Ask for the name of a queue, and pause it."""
        context = {
            "title": _("Pause a queue"),
            "show_save_and_continue": False,
            "show_save_and_add_another": False,
        }
        return super().add_view(request, form_url, context | (extra_context or {}))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Pause the queue, or write how its priorities age."""
        if change:
            obj.save(using=get_settings().database, update_fields=form.changed_data)
            return
        is_known = obj.pk in known_queues()
        self._tell(request, [obj.pk] if operations.pause(request.user, obj.pk) else [], 1, _paused)
        if not is_known:
            text = _("No job is declared for the queue %(queue)s. Is that its name?")
            self.message_user(request, text % {"queue": obj.pk}, messages.WARNING)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self.log_change(request, obj, _("Paused."))

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Go back to the list; save_model has told the outcome."""
        name = f"{self.admin_site.name}:django_pgjobs_{self.opts.model_name}_changelist"
        return HttpResponseRedirect(reverse(name))

    @admin.action(description=gettext_lazy("Pause selected queues"), permissions=["pause"])
    def pause_queues(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Stop claims of the selected queues."""
        self._act(request, queryset, operations.pause, _paused, _("Paused."))

    @admin.action(description=gettext_lazy("Resume selected queues"), permissions=["pause"])
    def resume_queues(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Allow claims of the selected queues again."""
        self._act(request, queryset, operations.resume, _resumed, _("Resumed."))

    def _act(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Any],
        operation: Callable[[Any, str], bool],
        sentence: Callable[[int], str],
        entry: str,
    ) -> None:
        queues = list(queryset)
        changed = [queue for queue in queues if operation(request.user, queue.pk)]
        for queue in changed:
            self.log_change(request, queue, entry)
        self._tell(request, changed, len(queues), sentence)

    def _tell(
        self, request: HttpRequest, changed: list[Any], count: int, sentence: Callable[[int], str]
    ) -> None:
        skipped = count - len(changed)
        if changed:
            self.message_user(request, sentence(len(changed)), messages.SUCCESS)
        if skipped:
            text = ngettext(
                "%(count)d queue skipped: it was so already.",
                "%(count)d queues skipped: they were so already.",
                skipped,
            )
            self.message_user(request, text % {"count": skipped}, messages.WARNING)


def _paused(count: int) -> str:
    return ngettext("%(count)d queue paused.", "%(count)d queues paused.", count) % {
        "count": count
    }


def _resumed(count: int) -> str:
    text = ngettext("%(count)d queue resumed.", "%(count)d queues resumed.", count)
    return text % {"count": count}
