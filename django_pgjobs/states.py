"""The states of a job, the outcomes of an attempt, and the legal transitions."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobStatus(models.TextChoices):
    """Where a job is in its life. The values are those of the enum ``job_status``."""

    #: Waiting: its time has not come.
    SCHEDULED = "scheduled", _("scheduled")
    #: Waiting: the last attempt failed, backing off.
    FAILED = "failed", _("failed")
    #: Waiting: given back by its worker, no attempt spent.
    RETRYABLE = "retryable", _("retryable")
    #: Waiting for a breaker to close, for another job, a group or a slot.
    BLOCKED = "blocked", _("blocked")
    #: May be claimed now.
    PENDING = "pending", _("pending")
    #: Owned by a worker under a lease.
    RUNNING = "running", _("running")
    #: Final: succeeded.
    COMPLETED = "completed", _("completed")
    #: Final: will not run again by itself.
    DEAD = "dead", _("dead")
    #: Final: ended on request, or expired.
    CANCELLED = "cancelled", _("cancelled")


class Outcome(models.TextChoices):
    """How an attempt ended. All but COMPLETED are recorded in ``job_attempts``."""

    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    TIMEOUT = "timeout", _("timed out")
    LOST = "lost", _("lost")
    SNOOZED = "snoozed", _("snoozed")
    RELEASED = "released", _("released")
    CANCELLED = "cancelled", _("cancelled")


#: Waiting until ``scheduled_at``; the stager makes these pending.
WAITING = frozenset({JobStatus.SCHEDULED, JobStatus.FAILED, JobStatus.RETRYABLE})

#: Rows of ``jobs_completed``. Every other status lives in ``jobs_active``.
FINAL = frozenset({JobStatus.COMPLETED, JobStatus.DEAD, JobStatus.CANCELLED})

#: The one table of legal transitions. An enqueue starts in SCHEDULED, BLOCKED or
#: PENDING; a redrive takes a DEAD or CANCELLED job back to PENDING.
TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.SCHEDULED: frozenset({JobStatus.PENDING, JobStatus.CANCELLED}),
    JobStatus.FAILED: frozenset({JobStatus.PENDING, JobStatus.CANCELLED}),
    JobStatus.RETRYABLE: frozenset({JobStatus.PENDING, JobStatus.CANCELLED}),
    JobStatus.BLOCKED: frozenset(
        {JobStatus.SCHEDULED, JobStatus.PENDING, JobStatus.CANCELLED, JobStatus.DEAD}
    ),
    JobStatus.PENDING: frozenset({JobStatus.RUNNING, JobStatus.BLOCKED, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.COMPLETED,
            JobStatus.FAILED,
            JobStatus.RETRYABLE,
            JobStatus.DEAD,
            JobStatus.CANCELLED,
        }
    ),
    JobStatus.COMPLETED: frozenset(),
    JobStatus.DEAD: frozenset({JobStatus.PENDING}),
    JobStatus.CANCELLED: frozenset({JobStatus.PENDING}),
}
