"""The pages of the Django admin.

Layer 7, a surface: jobs, attempts and workers to read and to act on, queues to pause, tenants
and schedules to edit. Acts go through ``administration.operations`` and nothing else.
"""

from __future__ import annotations

from .active import ActiveJobAdmin
from .attempts import JobAttemptAdmin
from .breakers import BreakerAdmin
from .finished import CompletedJobAdmin
from .queues import QueueConfigAdmin
from .schedules import CronScheduleAdmin
from .tenants import TenantConfigAdmin
from .workers import JobWorkerAdmin

__all__ = [
    "ActiveJobAdmin",
    "CompletedJobAdmin",
    "JobAttemptAdmin",
    "BreakerAdmin",
    "QueueConfigAdmin",
    "TenantConfigAdmin",
    "CronScheduleAdmin",
    "JobWorkerAdmin",
]
