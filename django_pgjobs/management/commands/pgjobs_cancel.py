"""``manage.py pgjobs_cancel``"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from ...administration.filters import UnfinishedFilter
from ...administration.operations import Cancellation, cancel, cancel_matching, count_matching
from ...states import FINAL, JobStatus
from ..arguments import instant
from ..matching import MatchingCommand


class Command(MatchingCommand):
    """Cancel unfinished jobs."""

    help = "Cancel unfinished jobs; ask the workers of running ones to stop."
    verb = "cancel"
    filters = ("job", "queue", "tenant", "status", "since", "until")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        statuses = [status.value for status in JobStatus if status not in FINAL]
        parser.add_argument("--status", choices=statuses, help="Those in this status.")
        parser.add_argument("--since", type=instant, help="Those enqueued at or after.")
        parser.add_argument("--until", type=instant, help="Those enqueued before.")
        parser.add_argument("--reason", default="", help="Kept with each job.")

    def act_on(self, ids: list[int], options: dict[str, Any]) -> None:
        self._tell(cancel(None, ids, reason=options["reason"]))

    def act_on_matching(self, filters: dict[str, Any], options: dict[str, Any]) -> None:
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
