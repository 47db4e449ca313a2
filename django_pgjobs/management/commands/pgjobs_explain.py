"""``manage.py pgjobs_explain``"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...conf import get_settings
from ...observability.plans import judge_statements
from ...store.connecting import SessionOptions, connect
from ..starting import require_schema


class Command(BaseCommand):
    """Say how the planner would run each statement of the protocol."""

    help = "Check that no statement reads or sorts a whole table on this database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue", help="Plan for this queue; PGJOBS['DEFAULT_QUEUE'] unless given."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        settings = get_settings()
        require_schema(settings.database)
        with connect(
            settings.database, "pgjobs explain", SessionOptions.from_settings(settings)
        ) as connection:
            verdicts = judge_statements(
                connection, queue=options["queue"] or settings.default_queue
            )
        bad = [verdict for verdict in verdicts if verdict.problems]
        for verdict in verdicts:
            mark = self.style.ERROR("bad") if verdict.problems else self.style.SUCCESS("ok ")
            self.stdout.write(f"{mark} {verdict.name}")
            for problem in verdict.problems:
                self.stdout.write(f"      {problem}")
        if bad:
            raise CommandError(
                f"{len(bad)} of {len(verdicts)} statements read more than they need. Compare the "
                "indexes with docs/reference/schema.md, run ANALYZE, and look at planner settings."
            )
