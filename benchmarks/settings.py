"""Settings of the project that the benchmarks measure."""

from __future__ import annotations

import environ

env = environ.Env()

SECRET_KEY = "for-benchmarks-only"  # noqa: S105
DEBUG = False
USE_TZ = True
DATABASES = {
    # The default is for tools that read settings and never connect.
    "default": env.db_url("DATABASE_URL", default="postgres://postgres@127.0.0.1:5432/pgjobs"),
}
# As in production: a web process keeps its connection.
DATABASES["default"]["CONN_MAX_AGE"] = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_pgjobs", "benchmarks"]

PGJOBS = env.json("BENCHMARK_PGJOBS", default={})

# As the other queues are compared: a line for each job costs as much as the job.
LOGGING = {"version": 1, "loggers": {"django_pgjobs": {"level": "WARNING"}}}
