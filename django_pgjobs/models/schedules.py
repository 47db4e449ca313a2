"""Recurring jobs."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..policies import CatchUp, Overlap
from .manager import AliasManager


class CronSchedule(models.Model):
    """A recurring definition: enqueues its job at each slot of a cron expression.

    To change one from code, use ``administration.schedules``: it sees to it that no slot from
    before the change is fired.
    """

    id = models.BigAutoField(_("id"), primary_key=True)
    name = models.TextField(_("name"))
    job_name = models.TextField(_("job"))
    cron_expression = models.TextField(_("cron expression"))
    timezone = models.TextField(_("time zone"), default="UTC")
    tenant_id = models.BigIntegerField(_("tenant"), default=0, help_text=_("0 for none."))
    queue_name = models.TextField(
        _("queue"), default="", blank=True, help_text=_("Empty for the job's own.")
    )
    priority = models.SmallIntegerField(
        _("priority"), null=True, blank=True, help_text=_("Empty for the job's own.")
    )
    max_attempts = models.IntegerField(
        _("max attempts"), null=True, blank=True, help_text=_("Empty for the job's own.")
    )
    payload = models.JSONField(_("payload"), default=dict, blank=True)
    payload_version = models.SmallIntegerField(_("payload version"), default=1)
    catch_up = models.TextField(
        _("missed slots"), choices=CatchUp.choices, default=CatchUp.SKIP.value
    )
    catch_up_limit = models.IntegerField(
        _("most missed slots"),
        default=100,
        help_text=_("How many slots to fire late, or to tell a job of; 1 to 1000."),
    )
    overlap = models.TextField(
        _("while the last job is unfinished"),
        choices=Overlap.choices,
        default=Overlap.ALLOW.value,
    )
    jitter = models.DurationField(
        _("jitter"),
        default=timedelta(0),
        help_text=_("Jobs start up to so much later than their slots; at most a day."),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    owner = models.TextField(_("declared by"), default="", blank=True, editable=False)
    removed_at = models.DateTimeField(
        _("removed from code at"), null=True, blank=True, editable=False
    )
    active_since = models.DateTimeField(_("active since"), db_default=Now(), editable=False)
    last_slot_at = models.DateTimeField(_("last slot"), null=True, blank=True, editable=False)
    next_run_at = models.DateTimeField(_("next run at"), null=True, blank=True, editable=False)
    queued_slot_at = models.DateTimeField(_("queued slot"), null=True, blank=True, editable=False)
    last_run_at = models.DateTimeField(_("last run at"), null=True, blank=True, editable=False)
    last_job_id = models.BigIntegerField(_("last job"), null=True, blank=True, editable=False)
    problem = models.TextField(_("problem"), default="", blank=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)

    objects = AliasManager()

    class Meta:
        db_table = "cron_schedules"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        constraints = (
            models.UniqueConstraint(fields=("name", "tenant_id"), name="cron_schedules_name"),
        )
        permissions = (
            ("pause_schedule", _("Can pause and resume schedules")),
            ("run_schedule", _("Can run schedules at once")),
        )

    def __str__(self) -> str:
        return self.name
