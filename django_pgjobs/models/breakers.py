"""Circuit breakers."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..fields import TextListField
from .manager import AliasManager


class Breaker(models.Model):
    """What stands between jobs and something that may be out of order."""

    class State(models.TextChoices):
        """Whether jobs pass."""

        CLOSED = "closed", _("closed")
        OPEN = "open", _("open")
        HALF_OPEN = "half_open", _("half-open")

    name = models.TextField(_("name"), primary_key=True)
    job_names = TextListField(_("jobs"))
    state = models.TextField(_("state"), choices=State.choices, default=State.CLOSED)
    reason = models.TextField(_("reason"), default="", blank=True)
    changed_at = models.DateTimeField(_("changed at"), db_default=Now())
    changed_by = models.TextField(_("changed by"), default="", blank=True)
    retry_at = models.DateTimeField(
        _("probes from"), null=True, help_text=_("Empty: when somebody closes it.")
    )
    failure_ratio = models.FloatField(_("failure ratio"))
    minimum = models.IntegerField(_("minimum"))
    period = models.DurationField(_("period"))
    cooldown = models.DurationField(_("cooldown"))
    probes = models.IntegerField(_("probes"))

    objects = AliasManager()

    class Meta:
        db_table = "breakers"
        verbose_name = _("breaker")
        verbose_name_plural = _("breakers")
        permissions = (("manage_breaker", _("Can open and close breakers")),)

    def __str__(self) -> str:
        return self.name
