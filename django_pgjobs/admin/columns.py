"""Columns of lists and pages that are worked out from a row.

What comes from rows is text, never markup: ``format_html`` escapes each of its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

#: Shown for what a row does not have.
NOTHING: Final = "-"


def since(instant: datetime) -> str:
    """Return how long ago an instant was, to a reader."""
    now = timezone.now()
    if now - instant < timedelta(minutes=1):
        return _("%(seconds)d s") % {"seconds": max(0, int((now - instant).total_seconds()))}
    return timesince(instant, now, depth=1)


def local_time(instant: datetime) -> str:
    """Return an instant to the second. Without USE_TZ it is in local time as it comes."""
    shown = instant if timezone.is_naive(instant) else timezone.localtime(instant)
    return shown.strftime("%Y-%m-%d %H:%M:%S")


def moment(field: str, label: Any) -> Callable[[Any, Any], str]:
    """Return a column that shows an instant to the second; Django's formats end at minutes."""

    @admin.display(description=label)
    def show(page: Any, row: Any) -> str:
        instant: datetime | None = getattr(row, field)
        return NOTHING if instant is None else local_time(instant)

    return show


def span(start: datetime | None, end: datetime | None) -> str:
    """Return the time between two instants, such as 12.345 s."""
    if start is None or end is None:
        return NOTHING
    length = end - start
    if length < timedelta(minutes=1):
        return _("%(seconds).3f s") % {"seconds": length.total_seconds()}
    return str(length - timedelta(microseconds=length.microseconds))


def preformatted(text: str | None) -> str:
    """Return text that keeps its lines."""
    return NOTHING if text is None else format_html("<pre>{}</pre>", text)


def as_json(value: Any) -> str:
    """Return a value in JSON, one item a line."""
    if value is None:
        return NOTHING
    return preformatted(json.dumps(value, indent=2, ensure_ascii=False, default=str))


class JobColumns:
    """Columns of jobs, unfinished and finished."""

    created = moment("created_at", gettext_lazy("created at"))
    scheduled = moment("scheduled_at", gettext_lazy("scheduled at"))
    first_started = moment("started_at", gettext_lazy("first attempt started at"))
    last_started = moment("locked_at", gettext_lazy("last attempt started at"))
    lease_ends = moment("lease_expires", gettext_lazy("lease expires"))
    completed = moment("completed_at", gettext_lazy("finished at"))
    expires = moment("expires_at", gettext_lazy("expires at"))

    @admin.display(description=gettext_lazy("status"))
    def status_text(self, job: Any) -> str:
        """Return the status, and that a stop was asked for."""
        if getattr(job, "cancel_requested", False):
            return _("%(status)s, asked to stop") % {"status": job.get_status_display()}
        return str(job.get_status_display())

    @admin.display(description=gettext_lazy("attempt"))
    def attempt_text(self, job: Any) -> str:
        """Return the attempt and how many there may be."""
        return f"{job.attempt}/{job.max_attempts}"

    @admin.display(description=gettext_lazy("tenant"))
    def tenant_text(self, job: Any) -> str:
        """Return the tenant, if the job has one."""
        return str(job.tenant_id) if job.tenant_id else NOTHING

    @admin.display(description=gettext_lazy("age"))
    def age(self, job: Any) -> str:
        """Return how long ago the job was enqueued."""
        return since(job.created_at)

    @admin.display(description=gettext_lazy("finished"))
    def completed_age(self, job: Any) -> str:
        """Return how long ago the job ended."""
        return _("%(time)s ago") % {"time": since(job.completed_at)}

    @admin.display(description=gettext_lazy("last attempt took"))
    def duration(self, job: Any) -> str:
        """Return how long the last attempt took."""
        return span(job.locked_at, job.completed_at)

    @admin.display(description=gettext_lazy("progress"))
    def progress_text(self, job: Any) -> str:
        """Return what the handler has said last, such as 40/100 (40 %) pages."""
        said = job.progress
        if said is None:
            return NOTHING
        current, total = said["current"], said.get("total")
        text = f"{current:,}" if total is None else f"{current:,}/{total:,}"
        if total:
            text += f" ({current / total:.0%})"
        return f"{text} {said.get('message', '')}".rstrip()

    @admin.display(description=gettext_lazy("payload"))
    def payload_text(self, job: Any) -> str:
        """Return the arguments, as they are stored."""
        return as_json(job.payload)

    @admin.display(description=gettext_lazy("result"))
    def result_text(self, job: Any) -> str:
        """Return what the handler returned, as it is stored."""
        return as_json(job.result)

    @admin.display(description=gettext_lazy("meta"))
    def meta_text(self, job: Any) -> str:
        """Return what middleware has stored with the job."""
        return as_json(job.meta)

    @admin.display(description=gettext_lazy("error"))
    def error_text(self, job: Any) -> str:
        """Return the message of the last error."""
        return preformatted(job.error_message)
