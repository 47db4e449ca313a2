"""What a schedule does about slots that it cannot simply fire."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import models
from django.utils.translation import gettext_lazy as _

#: A slot found later than this was missed. Longer than maintenance takes to change its leader,
#: so that slots are not lost to a process that dies.
ON_TIME: Final = timedelta(minutes=1)


class CatchUp(models.TextChoices):
    """What becomes of missed slots: those found a minute late or more."""

    #: Only the latest is fired, late; none if a slot is due on time.
    SKIP = "skip", _("skip them but for the latest")
    #: Each is fired, of many the latest ``catch_up_limit``.
    CATCH_UP = "catch_up", _("fire each of them")
    #: As SKIP, and the job is told in its meta which slots it stands for.
    COLLAPSE = "collapse", _("fire one job for all of them")


class Overlap(models.TextChoices):
    """What becomes of a slot while the schedule's last job is unfinished."""

    ALLOW = "allow", _("fire it")
    SKIP = "skip", _("skip it")
    #: It waits until the job has finished; of several the latest waits.
    QUEUE_ONE = "queue_one", _("fire the latest when the job has finished")
