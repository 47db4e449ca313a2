"""A production job queue for Django on the PostgreSQL it already has."""

from __future__ import annotations

from .definitions.breakers import Breaker, RetryBudget
from .definitions.context import JobContext
from .definitions.retries import Backoff
from .outcomes import Cancel, Retry, Snooze
from .producer.enqueueing import EnqueuedJob
from .producer.jobs import Job, enqueue, enqueue_many, job, schedule

__all__ = [
    "Backoff",
    "Breaker",
    "Cancel",
    "EnqueuedJob",
    "Job",
    "JobContext",
    "Retry",
    "RetryBudget",
    "Snooze",
    "enqueue",
    "enqueue_many",
    "job",
    "schedule",
]

__version__ = "0.1.0"
