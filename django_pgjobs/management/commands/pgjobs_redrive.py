"""``manage.py pgjobs_redrive``"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from ...administration.filters import UnsuccessfulFilter
from ...administration.operations import (
    BATCH,
    Redrive,
    count_matching,
    redrive,
    redrive_matching,
)
from ...administration.pacing import paced
from ..arguments import above_zero, instant
from ..matching import MatchingCommand

#: Ids that are printed.
_SHOWN = 100


class Command(MatchingCommand):
    """Make dead or cancelled jobs pending again."""

    help = "Make dead or cancelled jobs pending again, with all their attempts."
    verb = "redrive"
    filters = ("job", "queue", "tenant", "fingerprint", "since", "until")

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--status", choices=["dead", "cancelled"], default="dead")
        parser.add_argument("--fingerprint", help="Those that died of this error.")
        parser.add_argument("--since", type=instant, help="Those that finished at or after.")
        parser.add_argument("--until", type=instant, help="Those that finished before.")
        parser.add_argument("--rate", type=above_zero, help="Jobs a second; as fast as can be.")

    def act_on(self, ids: list[int], options: dict[str, Any]) -> None:
        self._tell(redrive(None, ids))

    def act_on_matching(self, filters: dict[str, Any], options: dict[str, Any]) -> None:
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
