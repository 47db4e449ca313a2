"""The presence of worker processes."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from ..models import JobWorker
from .base import ReadOnlyAdmin
from .columns import moment, since


@admin.register(JobWorker)
class JobWorkerAdmin(ReadOnlyAdmin):
    """Workers that run, and those that did not say goodbye."""

    list_display = (
        "worker_id",
        "hostname",
        "pid",
        "queue_names",
        "slots",
        "started",
        "heartbeat_age",
    )
    ordering = ("hostname", "worker_id")
    sortable_by = ()
    fields = (
        "worker_id",
        "hostname",
        "pid",
        "queue_names",
        "slots",
        "started",
        "heartbeat",
        "idle",
    )

    started = moment("started_at", _("started at"))
    heartbeat = moment("heartbeat_at", _("heartbeat at"))
    idle = moment("idle_since", _("idle since"))

    @admin.display(description=_("queues"))
    def queue_names(self, worker: JobWorker) -> str:
        """Return the queues that the worker serves."""
        return ", ".join(worker.queues)

    @admin.display(description=_("running"))
    def slots(self, worker: JobWorker) -> str:
        """Return how many of the worker's slots are taken."""
        return f"{worker.running}/{worker.concurrency}"

    @admin.display(description=_("last heartbeat"))
    def heartbeat_age(self, worker: JobWorker) -> str:
        """Return how long ago the worker last said that it is alive."""
        return _("%(time)s ago") % {"time": since(worker.heartbeat_at)}
