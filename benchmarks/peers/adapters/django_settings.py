"""Settings for the backends of ``django.tasks``; ``BENCHMARK_PEER`` says which."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

peer = os.environ["BENCHMARK_PEER"]
parts = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = "for-benchmarks-only"  # noqa: S105
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
        "CONN_MAX_AGE": None,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

BACKENDS: dict[str, dict[str, Any]] = {
    "django-tasks-db": {
        "app": "django_tasks_db",
        "task": {"BACKEND": "django_tasks_db.DatabaseBackend"},
    },
    "django-ox": {"app": "django_ox", "task": {"BACKEND": "django_ox.backend.OxBackend"}},
    "dj-queue": {
        "app": "dj_queue",
        "task": {
            "BACKEND": "dj_queue.backend.DjQueueBackend",
            "QUEUES": [],
            "OPTIONS": {
                "mode": "async",
                "workers": [
                    {"queues": "*", "threads": 4, "polling_interval": 0.1},
                ],
            },
        },
    },
}
INSTALLED_APPS = [BACKENDS[peer]["app"]]
TASKS = {"default": BACKENDS[peer]["task"]}
