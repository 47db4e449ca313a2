"""What operators set for queues and tenants."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .manager import AliasManager


class QueueConfig(models.Model):
    """What operators have set for a queue. A queue needs no row to exist."""

    queue_name = models.TextField(_("queue"), primary_key=True)
    paused = models.BooleanField(_("paused"), default=False)
    paused_at = models.DateTimeField(_("paused at"), null=True, blank=True)
    paused_by = models.TextField(_("paused by"), default="", blank=True)
    priority_aging = models.DurationField(
        _("priority aging"),
        null=True,
        blank=True,
        help_text=_(
            "How long a job has to wait to count as much as a new one of the next higher "
            "priority; empty for strict order. Applies to jobs enqueued from now on."
        ),
    )

    objects = AliasManager()

    class Meta:
        db_table = "queue_config"
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions = (("pause_queue", _("Can pause and resume queues")),)

    def __str__(self) -> str:
        return self.queue_name


class TenantConfig(models.Model):
    """What operators have set for a tenant. A tenant needs no row to be served."""

    tenant_id = models.BigIntegerField(_("tenant"), primary_key=True)
    max_concurrent_jobs = models.IntegerField(
        _("max concurrent jobs"), null=True, blank=True, help_text=_("Empty for no cap.")
    )
    max_enqueue_per_minute = models.IntegerField(
        _("max enqueue per minute"), null=True, blank=True, help_text=_("Empty for no limit.")
    )
    quota_weight = models.IntegerField(
        _("quota weight"), default=10, help_text=_("Share of the workers, 1 to 1000.")
    )
    priority_boost = models.SmallIntegerField(
        _("priority boost"),
        default=0,
        help_text=_("Each step doubles the share, or halves it; -10 to 10."),
    )

    objects = AliasManager()

    class Meta:
        db_table = "tenant_config"
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")

    def __str__(self) -> str:
        return str(self.tenant_id)
