"""django-pgjobs: ours."""

from __future__ import annotations

import os
import sys

import django
from django.core.management import call_command

from django_pgjobs import enqueue_many
from django_pgjobs.maintenance.partitions import Partitioner
from django_pgjobs.store.connecting import connect

from .driving import drive


class PgJobs:
    """The settings of the environment; with BENCHMARK_ASYNC, jobs are coroutine functions."""

    def __init__(self) -> None:
        from ... import jobs  # noqa: PLC0415

        is_async = "BENCHMARK_ASYNC" in os.environ
        self._nothing = jobs.nothing_async if is_async else jobs.nothing
        self._stamp = jobs.stamp_async if is_async else jobs.stamp

    def setup(self) -> None:
        """Make the tables and today's partitions."""
        call_command("migrate", verbosity=0)
        with connect("default", "benchmark") as connection:
            Partitioner(days_ahead=1, retention=None).run_once(connection, batch_size=10)

    def fill(self, count: int) -> None:
        """Enqueue in one transaction."""
        enqueue_many(self._nothing.prepare() for _ in range(count))

    def work(self) -> None:
        """Become the worker."""
        os.execv(sys.executable, [sys.executable, "-m", "django", "pgjobs_worker"])  # noqa: S606

    def nothing(self) -> None:
        """Enqueue in autocommit."""
        self._nothing.enqueue()

    def stamp(self, sent_at: float) -> None:
        """Enqueue in autocommit."""
        self._stamp.enqueue(sent_at=sent_at)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    django.setup()
    drive(PgJobs())
