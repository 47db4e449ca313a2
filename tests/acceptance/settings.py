"""Settings of the processes that the acceptance tests start: short leases, quick maintenance."""

from __future__ import annotations

import json
import os
import socket
import sys
from datetime import UTC, datetime, timedelta

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance"]

# Past a pooler.
if "PGJOBS_TEST_DIRECT_URL" in os.environ:
    DATABASES["direct"] = env.db_url("PGJOBS_TEST_DIRECT_URL")

# What keeps much: connections that live on, and Django's log of their queries.
if "PGJOBS_TEST_DEBUG" in os.environ:
    DEBUG = True
    DATABASES["default"]["CONN_MAX_AGE"] = None

# The host name and process id that containers often share.
if "PGJOBS_TEST_IDENTITY" in os.environ:
    _host, _pid = os.environ["PGJOBS_TEST_IDENTITY"].split()
    socket.gethostname = lambda: _host
    os.getpid = lambda: int(_pid)

# A clock that is wrong by so many seconds; durations stay right.
if "PGJOBS_TEST_CLOCK_SHIFT" in os.environ:
    # It imports pytest, for which the other processes need not wait.
    import time_machine

    _shift = timedelta(seconds=int(os.environ["PGJOBS_TEST_CLOCK_SHIFT"]))
    time_machine.travel(datetime.now(UTC) + _shift, tick=True).start()

PGJOBS = {
    "LEASE_DURATION": timedelta(seconds=3),
    "HEARTBEAT_INTERVAL": timedelta(seconds=0.5),
    "REAPER_INTERVAL": timedelta(seconds=0.5),
    "POLL_INTERVAL": timedelta(seconds=0.1),
    "SHUTDOWN_TIMEOUT": timedelta(seconds=20),
    "BACKOFF_BASE": timedelta(seconds=0.1),
    "BACKOFF_CAP": timedelta(seconds=1),
}
# A test may ask for other values, durations in seconds.
PGJOBS |= json.loads(os.environ.get("PGJOBS_TEST_SETTINGS", "{}"))
PGJOBS |= {
    name: timedelta(seconds=seconds)
    for name, seconds in json.loads(os.environ.get("PGJOBS_TEST_DURATIONS", "{}")).items()
}

LOGGING = {
    "version": 1,
    "formatters": {"line": {"format": "%(asctime)s %(process)d %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"django_pgjobs": {"handlers": ["stderr"], "level": "INFO"}},
}

# Only in processes of the pool: they run no command.
if "PGJOBS_TEST_BROKEN_PROCESSES" in os.environ and sys.argv == ["-c"]:
    raise RuntimeError("This process cannot start.")
