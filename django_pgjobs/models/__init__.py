"""The tables, as people read them.

The protocol's tables are written by the statements in ``sql/`` only, and guarded by the
named constraints of the migrations; nothing here overrides ``save``.
``tests/schema/test_mirror.py`` compares each field with the catalogue.
"""

from __future__ import annotations

from .breakers import Breaker
from .config import QueueConfig, TenantConfig
from .jobs import ActiveJob, CompletedJob, JobAttempt, JobHistory, JobQuerySet
from .schedules import CronSchedule
from .workers import JobWorker

__all__ = [
    "ActiveJob",
    "Breaker",
    "CompletedJob",
    "CronSchedule",
    "JobAttempt",
    "JobHistory",
    "JobQuerySet",
    "JobWorker",
    "QueueConfig",
    "TenantConfig",
]
