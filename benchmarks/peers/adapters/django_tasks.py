"""The backends of ``django.tasks``; ``BENCHMARK_PEER`` says which."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import django
from django.core.management import call_command
from django.db import transaction

from .driving import drive

#: The command of each worker. One process; threads where it has them.
WORKERS: dict[str, Sequence[str]] = {
    "django-tasks-db": ("db_worker", "--interval", "0.1", "--no-startup-delay"),
    "django-ox": ("ox_worker", "--concurrency", "4", "--interval", "0.1"),
    "dj-queue": ("dj_queue", "--mode", "async", "--skip-recurring"),
}

BATCH = 1_000


class DjangoTasks:
    """One interface for all of them."""

    def __init__(self, peer: str) -> None:
        self._worker = WORKERS[peer]
        self._bulk = BULKS[peer]

    def setup(self) -> None:
        """Make the tables."""
        call_command("migrate", verbosity=0)

    def fill(self, count: int) -> None:
        """Enqueue in bulk where the backend can, else in one transaction."""
        for start in range(0, count, BATCH):
            with transaction.atomic():
                self._bulk(min(BATCH, count - start))

    def work(self) -> None:
        """Become the worker."""
        command = [sys.executable, "-m", "django", *self._worker]
        os.execv(sys.executable, command)  # noqa: S606

    def nothing(self) -> None:
        """Enqueue in autocommit."""
        from .tasks import nothing  # noqa: PLC0415

        nothing.enqueue()

    def stamp(self, sent_at: float) -> None:
        """Enqueue in autocommit."""
        from .tasks import stamp  # noqa: PLC0415

        stamp.enqueue(sent_at=sent_at)


def _one_by_one(count: int) -> None:
    from .tasks import nothing  # noqa: PLC0415

    for _ in range(count):
        nothing.enqueue()


def _by_ox(count: int) -> None:
    from .tasks import nothing  # noqa: PLC0415

    nothing.get_backend().enqueue_many(nothing, [((), {})] * count)


def _by_dj_queue(count: int) -> None:
    from .tasks import nothing  # noqa: PLC0415

    nothing.get_backend().enqueue_all([(nothing, [], {})] * count)


BULKS: dict[str, Callable[[int], None]] = {
    "django-tasks-db": _one_by_one,
    "django-ox": _by_ox,
    "dj-queue": _by_dj_queue,
}

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.peers.adapters.django_settings"
    django.setup()
    drive(DjangoTasks(os.environ["BENCHMARK_PEER"]))
