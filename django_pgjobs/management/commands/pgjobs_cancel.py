"""``manage.py pgjobs_cancel``"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...administration.filters import UnfinishedFilter
from ...administration.operations import Cancellation, cancel, cancel_matching, count_matching
from ...conf import get_settings
from ...exceptions import OperationError
from ...states import FINAL, JobStatus
from ..arguments import instant
from ..starting import require_schema

_FILTERS = ("job", "queue", "tenant", "status", "since", "until")


class Command(BaseCommand):
    """Cancel unfinished jobs."""

    help = "Cancel unfinished jobs; ask the workers of running ones to stop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        statuses = [status.value for status in JobStatus if status not in FINAL]
        parser.add_argument("id", type=int, nargs="*", help="Jobs to cancel; or give a filter.")
        parser.add_argument("--status", choices=statuses, help="Those in this status.")
        parser.add_argument("--job", help="Those of this name.")
        parser.add_argument("--queue", help="Those of this queue.")
        parser.add_argument("--tenant", type=int, help="Those of this tenant.")
        parser.add_argument("--since", type=instant, help="Those enqueued at or after.")
        parser.add_argument("--until", type=instant, help="Those enqueued before.")
        parser.add_argument("--all", action="store_true", help="All, if no filter is given.")
        parser.add_argument("--reason", default="", help="Kept with each job.")
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")

    def handle(self, *args: Any, **options: Any) -> None:
        filters = {name: options[name] for name in _FILTERS if options[name] is not None}
        if bool(options["id"]) + bool(filters) + options["all"] != 1:
            raise CommandError("Give either ids of jobs, or a filter such as --job, or --all.")
        require_schema(get_settings().database)
        try:
            self._cancel(options, filters)
        except OperationError as error:
            raise CommandError(str(error)) from None

    def _cancel(self, options: dict[str, Any], filters: dict[str, Any]) -> None:
        if options["id"]:
            if options["dry_run"]:
                raise CommandError("--dry-run counts what a filter finds; ids were given.")
            self._tell(cancel(None, options["id"], reason=options["reason"]))
            return
        wanted = UnfinishedFilter(**filters)
        if options["dry_run"]:
            self.stdout.write(f"would cancel: {count_matching(wanted)}")
            return
        done: list[Cancellation] = []
        try:
            done.extend(cancel_matching(None, wanted, reason=options["reason"]))
        finally:
            # Also when somebody lost patience.
            self._tell(Cancellation.sum(done))

    def _tell(self, done: Cancellation) -> None:
        self.stdout.write(f"cancelled: {len(done.cancelled)}")
        self.stdout.write(f"asked to stop: {len(done.requested)}")
        if done.skipped:
            self.stdout.write(f"skipped (finished, unknown or busy): {len(done.skipped)}")
