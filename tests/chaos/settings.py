"""Settings of the processes in chaos: everything is short, and nobody waits for the dead."""

from __future__ import annotations

import os
from datetime import timedelta

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.chaos.apps.ChaosConfig"]

DATABASES["default"]["OPTIONS"] = {"connect_timeout": 5}

PGJOBS = {
    "LEASE_DURATION": timedelta(seconds=3),
    "HEARTBEAT_INTERVAL": timedelta(seconds=0.5),
    "REAPER_INTERVAL": timedelta(seconds=0.5),
    "POLL_INTERVAL": timedelta(seconds=0.5),
    "SHUTDOWN_TIMEOUT": timedelta(seconds=2),
    "BACKOFF_BASE": timedelta(seconds=0.1),
    "BACKOFF_CAP": timedelta(seconds=1),
    "TIMEOUT_GRACE": timedelta(seconds=0.5),
    "CONCURRENCY": 8,
    "ASYNC_CONCURRENCY": 20,
    "PROCESS_CONCURRENCY": 1,
}

#: Which guard to take out of the statements of this process, if any; see tests.chaos.mutants.
CHAOS_MUTANT = os.environ.get("PGJOBS_CHAOS_MUTANT", "")

# Each record begins with a mark, so that records can be told from the lines of a traceback.
# What became of a job is not in it: it says nothing about the process.
LOGGING = {
    "version": 1,
    "formatters": {"record": {"format": "@ %(asctime)s %(levelname)s %(message)s"}},
    "filters": {"no_outcomes": {"()": "tests.chaos.apps.NoOutcomes"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "record",
            "filters": ["no_outcomes"],
        }
    },
    "loggers": {"django_pgjobs": {"handlers": ["stderr"], "level": "INFO"}},
}
