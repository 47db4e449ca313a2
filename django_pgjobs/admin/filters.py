"""Filters of the lists of jobs: exact, and with choices that need no scan of the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..conf import get_settings
from ..definitions.registry import registry
from ..models import QueueConfig
from ..states import FINAL, JobStatus


class ExactFilter(admin.SimpleListFilter):
    """A filter of one column by one of a few known values."""

    #: The column.
    field_name: str

    def condition(self) -> dict[str, Any]:
        """Return what the chosen value asks for; nothing when none is chosen."""
        value = self.value()
        if value is None:
            return {}
        if value not in {str(choice) for choice, _title in self.lookup_choices}:
            raise IncorrectLookupParameters(value)
        return {self.field_name: value}

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        return queryset.filter(**self.condition())


class UnfinishedStatusFilter(ExactFilter):
    """The statuses of jobs_active."""

    title = _("status")
    parameter_name = "status"
    field_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(status.value, status.label) for status in JobStatus if status not in FINAL]


class FinishedStatusFilter(ExactFilter):
    """The statuses of jobs_completed."""

    title = _("status")
    parameter_name = "status"
    field_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(status.value, status.label) for status in JobStatus if status in FINAL]


class QueueFilter(ExactFilter):
    """The queues that operators have set something for, or that definitions name."""

    title = _("queue")
    parameter_name = "queue"
    field_name = "queue_name"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(name, name) for name in known_queues()]


class JobNameFilter(ExactFilter):
    """The jobs that are registered in this process."""

    title = _("job")
    parameter_name = "job"
    field_name = "job_name"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(name, name) for name in sorted(definition.name for definition in registry)]


def known_queues() -> list[str]:
    """Return the names of queues that can be known without reading jobs."""
    default = get_settings().default_queue
    declared = {definition.queue or default for definition in registry}
    return sorted({default, *declared, *QueueConfig.objects.values_list("pk", flat=True)})
