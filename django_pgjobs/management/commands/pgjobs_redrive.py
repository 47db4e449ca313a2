"""``manage.py pgjobs_redrive``"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...administration.filters import UnsuccessfulFilter
from ...administration.operations import (
    BATCH,
    Redrive,
    count_matching,
    redrive,
    redrive_matching,
)
from ...administration.pacing import paced
from ...conf import get_settings
from ...exceptions import OperationError
from ..arguments import above_zero, instant
from ..starting import require_schema

#: Ids that are printed.
_SHOWN = 100

_FILTERS = ("job", "queue", "tenant", "fingerprint", "since", "until")


class Command(BaseCommand):
    """Make dead or cancelled jobs pending again."""

    help = "Make dead or cancelled jobs pending again, with all their attempts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=int, nargs="*", help="Jobs to redrive; or give a filter.")
        parser.add_argument("--status", choices=["dead", "cancelled"], default="dead")
        parser.add_argument("--job", help="Those of this name.")
        parser.add_argument("--queue", help="Those of this queue.")
        parser.add_argument("--tenant", type=int, help="Those of this tenant.")
        parser.add_argument("--fingerprint", help="Those that died of this error.")
        parser.add_argument("--since", type=instant, help="Those that finished at or after.")
        parser.add_argument("--until", type=instant, help="Those that finished before.")
        parser.add_argument("--all", action="store_true", help="All, if no filter is given.")
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")
        parser.add_argument("--rate", type=above_zero, help="Jobs a second; as fast as can be.")

    def handle(self, *args: Any, **options: Any) -> None:
        filters = {name: options[name] for name in _FILTERS if options[name] is not None}
        if bool(options["id"]) + bool(filters) + options["all"] != 1:
            raise CommandError("Give either ids of jobs, or a filter such as --job, or --all.")
        require_schema(get_settings().database)
        try:
            self._redrive(options, filters)
        except OperationError as error:
            raise CommandError(str(error)) from None

    def _redrive(self, options: dict[str, Any], filters: dict[str, Any]) -> None:
        if options["id"]:
            if options["dry_run"]:
                raise CommandError("--dry-run counts what a filter finds; ids were given.")
            self._tell(redrive(None, options["id"]))
            return
        wanted = UnsuccessfulFilter(status=options["status"], **filters)
        if options["dry_run"]:
            self.stdout.write(f"would redrive: {count_matching(wanted)}")
            return
        rate = options["rate"]
        size = BATCH if rate is None else max(1, min(BATCH, round(rate)))
        done: list[Redrive] = []
        try:
            parts = redrive_matching(None, wanted, batch_size=size)
            done.extend(paced(parts, rate, size=lambda part: len(part.redriven)))
        finally:
            # Also when somebody lost patience.
            self._tell(Redrive.sum(done))

    def _tell(self, done: Redrive) -> None:
        self.stdout.write(f"redriven: {len(done.redriven)}")
        for label, ids in (
            ("conflicting (an unfinished job holds the idempotency key)", done.conflicting),
            ("skipped (neither dead nor cancelled)", done.skipped),
        ):
            if ids:
                shown = ", ".join(map(str, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
                self.stdout.write(f"{label}: {len(ids)}: {shown}")
