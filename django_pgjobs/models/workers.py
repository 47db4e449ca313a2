"""The processes that run jobs."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..fields import TextListField
from .manager import AliasManager


class JobWorker(models.Model):
    """The presence of a worker process."""

    worker_id = models.TextField(_("worker"), primary_key=True)
    hostname = models.TextField(_("host name"))
    pid = models.IntegerField(_("process id"))
    queues = TextListField(_("queues"))
    concurrency = models.IntegerField(_("concurrency"))
    running = models.IntegerField(_("running"), default=0)
    started_at = models.DateTimeField(_("started at"))
    heartbeat_at = models.DateTimeField(_("heartbeat at"))
    channel = models.TextField(_("channel"), null=True)
    idle_queues = TextListField(_("idle for queues"), default=list)
    idle_since = models.DateTimeField(_("idle since"), null=True)

    objects = AliasManager()

    class Meta:
        db_table = "job_workers"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.worker_id
