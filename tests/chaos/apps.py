"""The app that declares the jobs of chaos."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.apps import AppConfig
from django.conf import settings


class ChaosConfig(AppConfig):
    """Gives this process its jobs, and perhaps a mutant."""

    name = "tests.chaos"
    label = "tests_chaos"

    def ready(self) -> None:
        """Make leadership change hands as quickly as leases do, and take a guard out."""
        from django_pgjobs.maintenance import maintainer

        from .mutants import apply_mutant

        maintainer.TERM = timedelta(seconds=3)
        if settings.CHAOS_MUTANT:
            apply_mutant(settings.CHAOS_MUTANT)


class NoOutcomes(logging.Filter):
    """Keeps what became of single jobs out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is about the process."""
        return not hasattr(record, "outcome")
