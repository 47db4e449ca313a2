"""``manage.py pgjobs_maintain``"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand

from ...conf import get_settings
from ...definitions.registry import registry
from ...maintenance.maintainer import Maintainer
from ...store.connecting import PATIENCE
from ...terminal import log_to_stderr
from ..starting import require_schema, wait_for_schema, warn_of_other_schedules
from ..stopping import leave, obey_signals, run_aside

#: Seconds for the end of the step under way, beyond what a statement of it may take.
SLACK: Final = timedelta(seconds=15)


class Command(BaseCommand):
    """Run maintenance until told to stop, or once."""

    help = "Reap lost jobs, stage due ones, fire schedules, keep partitions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once",
            action="store_true",
            help="Run every service once and exit, for use from cron.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        settings = get_settings()
        maintainer = Maintainer.from_settings(settings, registry)
        log_to_stderr()
        if options["once"]:
            require_schema(settings.database)
            warn_of_other_schedules(settings.database, registry)
            maintainer.run_once()
            return
        obey_signals(lambda number: maintainer.stop())
        wait_for_schema(settings.database, is_stopped=lambda: maintainer.is_stopping)
        if not maintainer.is_stopping:
            warn_of_other_schedules(settings.database, registry)
            run_aside(
                maintainer.run,
                is_stopping=lambda: maintainer.is_stopping,
                patience=settings.statement_timeout * PATIENCE + SLACK,
            )
        leave(0)
