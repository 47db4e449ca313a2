"""Acts on all jobs that match a filter: count first, then act, some thousands at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..administration import operations
from ..administration.filters import UnfinishedFilter, UnsuccessfulFilter
from ..administration.operations import Cancellation, Redrive
from ..exceptions import OperationError
from ..states import FINAL, JobStatus
from .base import BIGINT

#: Parts of one request: so many times operations.BATCH jobs.
_PARTS: Final = 10


class FilterForm(forms.Form):
    """Which jobs. Whatever is left empty matches all."""

    job = forms.CharField(label=gettext_lazy("Job"), required=False, max_length=255)
    queue = forms.CharField(label=gettext_lazy("Queue"), required=False, max_length=63)
    tenant = forms.IntegerField(
        label=gettext_lazy("Tenant"),
        required=False,
        min_value=BIGINT.start,
        max_value=BIGINT.stop - 1,
        help_text=gettext_lazy("0 for jobs without one."),
    )


class UnsuccessfulForm(FilterForm):
    """Which dead or cancelled jobs."""

    status = forms.ChoiceField(
        label=gettext_lazy("Status"),
        choices=[(status.value, status.label) for status in (JobStatus.DEAD, JobStatus.CANCELLED)],
    )
    fingerprint = forms.CharField(
        label=gettext_lazy("Fingerprint"), required=False, max_length=255
    )
    since = forms.DateTimeField(label=gettext_lazy("Finished since"), required=False)
    until = forms.DateTimeField(label=gettext_lazy("Finished before"), required=False)


class UnfinishedForm(FilterForm):
    """Which unfinished jobs."""

    status = forms.ChoiceField(
        label=gettext_lazy("Status"),
        required=False,
        choices=[
            ("", gettext_lazy("any")),
            *((status.value, status.label) for status in JobStatus if status not in FINAL),
        ],
    )
    since = forms.DateTimeField(label=gettext_lazy("Enqueued since"), required=False)
    until = forms.DateTimeField(label=gettext_lazy("Enqueued before"), required=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAct:
    """An act on all jobs that match.

    Attributes:
        name: in the address.
        title: of the page and of its button.
        form: asks which jobs.
        filter: of those jobs.
        permission: that the act needs.
        act: does one part after the other.
        tell: how many jobs the parts have touched, and a sentence about them.
    """

    name: str
    title: Any
    form: type[FilterForm]
    filter: type[UnfinishedFilter] | type[UnsuccessfulFilter]
    permission: str
    act: Callable[[Any, Any], Iterator[Any]]
    tell: Callable[[list[Any]], tuple[int, str]]

    def show(self, page: Any, request: HttpRequest) -> HttpResponse:
        """Return the page of the act, and do it when it was posted.

        Args:
            page: the admin of the jobs.
            request: names the jobs.

        Raises:
            PermissionDenied: the user may not see those jobs, or not act on them.
        """
        if not (page.has_view_permission(request) and request.user.has_perm(self.permission)):
            raise PermissionDenied
        data = request.POST if request.method == "POST" else request.GET
        form = self.form(data or None)
        wanted = self._wanted(form) if form.is_bound and form.is_valid() else None
        if wanted is not None and request.method == "POST":
            self._do(page, request, wanted)
            # With what was posted, to show what is left.
            return HttpResponseRedirect(f"{request.path}?{_query_of(form)}")
        request.current_app = page.admin_site.name
        context = {
            **page.admin_site.each_context(request),
            "title": self.title,
            "opts": page.opts,
            "form": form,
            "count": None if wanted is None else operations.count_matching(wanted),
            "media": page.media,
        }
        return TemplateResponse(request, "pgjobs/bulk.html", context)

    def _wanted(self, form: FilterForm) -> Any:
        given = {
            name: value for name, value in form.cleaned_data.items() if value not in {"", None}
        }
        try:
            return self.filter(**given)
        except OperationError as error:
            form.add_error(None, str(error))
            return None

    def _do(self, page: Any, request: HttpRequest, wanted: Any) -> None:
        done = list(islice(self.act(request.user, wanted), _PARTS))
        touched, sentence = self.tell(done)
        page.message_user(request, sentence, messages.SUCCESS if touched else messages.WARNING)
        if len(done) == _PARTS:
            page.message_user(request, _("There may be more. Go on."), messages.WARNING)
        if touched:
            self._log(page, request, sentence, wanted)

    def _log(self, page: Any, request: HttpRequest, sentence: str, wanted: Any) -> None:
        user: Any = request.user
        LogEntry.objects.create(
            user_id=user.pk,
            content_type=ContentType.objects.get_for_model(page.model),
            object_id=None,
            object_repr=str(page.opts.verbose_name_plural),
            action_flag=CHANGE,
            change_message=f"{sentence} {wanted}",
        )


def _query_of(form: FilterForm) -> str:
    return urlencode({name: form.data.get(name, "") for name in form.fields})


def _tell_cancelled(parts: list[Cancellation]) -> tuple[int, str]:
    done = Cancellation.sum(parts)
    sentence = _(
        "Cancelled: %(cancelled)d. Asked to stop: %(requested)d. Skipped: %(skipped)d."
    ) % {
        "cancelled": len(done.cancelled),
        "requested": len(done.requested),
        "skipped": len(done.skipped),
    }
    return len(done.cancelled) + len(done.requested), sentence


def _tell_redriven(parts: list[Redrive]) -> tuple[int, str]:
    done = Redrive.sum(parts)
    sentence = _(
        "Redriven: %(redriven)d. Conflicting, because an unfinished job holds the idempotency "
        "key: %(conflicting)d. Skipped: %(skipped)d."
    ) % {
        "redriven": len(done.redriven),
        "conflicting": len(done.conflicting),
        "skipped": len(done.skipped),
    }
    return len(done.redriven), sentence


CANCEL: Final = BulkAct(
    name="cancel",
    title=gettext_lazy("Cancel jobs by filter"),
    form=UnfinishedForm,
    filter=UnfinishedFilter,
    permission=operations.CANCEL_JOB,
    act=operations.cancel_matching,
    tell=_tell_cancelled,
)

REDRIVE: Final = BulkAct(
    name="redrive",
    title=gettext_lazy("Redrive jobs by filter"),
    form=UnsuccessfulForm,
    filter=UnsuccessfulFilter,
    permission=operations.REDRIVE_JOB,
    act=operations.redrive_matching,
    tell=_tell_redriven,
)
