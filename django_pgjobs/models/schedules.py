"""Recurring jobs."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .manager import AliasManager


class CronSchedule(models.Model):
    """A recurring definition: enqueues its job at each slot of a cron expression."""

    id = models.BigAutoField(_("id"), primary_key=True)
    name = models.TextField(_("name"), unique=True)
    job_name = models.TextField(_("job"))
    cron_expression = models.TextField(_("cron expression"))
    timezone = models.TextField(_("time zone"), default="UTC")
    tenant_id = models.BigIntegerField(_("tenant"), default=0, help_text=_("0 for none."))
    queue_name = models.TextField(
        _("queue"), default="", blank=True, help_text=_("Empty for the job's own.")
    )
    payload = models.JSONField(_("payload"), default=dict, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    last_run_at = models.DateTimeField(_("last run at"), null=True, blank=True, editable=False)
    next_run_at = models.DateTimeField(_("next run at"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = AliasManager()

    class Meta:
        db_table = "cron_schedules"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")

    def __str__(self) -> str:
        return self.name
