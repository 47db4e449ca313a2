"""``manage.py pgjobs_schedules``"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ...administration.declaring import compare, synchronise
from ...administration.schedules import pause_schedule, resume_schedule, run_schedule
from ...conf import get_settings
from ...definitions.previews import preview
from ...definitions.registry import registry
from ...exceptions import InvalidSchedule, OperationError
from ...models import CronSchedule
from ..starting import require_schema


class Command(BaseCommand):
    """Show schedules with their next times, and act on them."""

    help = "Show schedules and when they are due next; pause, resume, run or synchronise them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="*", help="Schedules; all unless given.")
        parser.add_argument("--tenant", type=int, help="Those of this tenant.")
        parser.add_argument("--next", type=int, default=1, help="How many times to show.")
        parser.add_argument("--cron", help="Show when this expression is due, and nothing else.")
        parser.add_argument("--timezone", default=settings.TIME_ZONE, help="Of --cron.")
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--pause", action="store_true", help="Pause the schedules named.")
        act.add_argument("--resume", action="store_true", help="Let the schedules named go on.")
        act.add_argument("--run", action="store_true", help="Enqueue the jobs of those named.")
        act.add_argument("--sync", action="store_true", help="Write what the code declares.")
        act.add_argument("--diff", action="store_true", help="Tell what --sync would write.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except (InvalidSchedule, OperationError) as error:
            raise CommandError(str(error)) from None

    def _handle(self, options: dict[str, Any]) -> None:
        if options["cron"] is not None:
            self._show_times(options["cron"], options["timezone"], options["next"])
            return
        require_schema(get_settings().database)
        if options["sync"] or options["diff"]:
            changes = synchronise(registry) if options["sync"] else compare(registry)
            self.stdout.write(str(changes))
            return
        acts: dict[str, Callable[[Any, int], Any]] = {
            "pause": pause_schedule,
            "resume": resume_schedule,
            "run": run_schedule,
        }
        chosen = [act for name, act in acts.items() if options[name]]
        if chosen and not options["name"]:
            raise CommandError("Name the schedules.")
        for schedule in self._find(options):
            for act in chosen:
                act(None, schedule.pk)
                schedule.refresh_from_db()
            self._show(schedule, options["next"])

    def _find(self, options: dict[str, Any]) -> list[CronSchedule]:
        found = CronSchedule.objects.order_by("name", "tenant_id")
        if options["tenant"] is not None:
            found = found.filter(tenant_id=options["tenant"])
        if not options["name"]:
            return list(found)
        rows = list(found.filter(name__in=options["name"]))
        missing = set(options["name"]) - {row.name for row in rows}
        if missing:
            raise CommandError(f"There is no schedule called {', '.join(sorted(missing))}.")
        return rows

    def _show(self, schedule: CronSchedule, count: int) -> None:
        tenant = f" of tenant {schedule.tenant_id}" if schedule.tenant_id else ""
        when = f"{schedule.cron_expression} ({schedule.timezone})"
        self.stdout.write(f"{schedule.name}{tenant}: {schedule.job_name} at {when}")
        if schedule.removed_at is not None:
            self.stdout.write("  removed from code")
        elif not schedule.enabled:
            self.stdout.write("  paused")
        elif schedule.problem:
            self.stdout.write(f"  {schedule.problem}")
        else:
            self._show_times(schedule.cron_expression, schedule.timezone, count)

    def _show_times(self, expression: str, timezone: str, count: int) -> None:
        for slot in preview(expression, timezone, count=count):
            self.stdout.write(f"  {slot.at:%a %Y-%m-%d %H:%M:%S %Z %z}  {slot.note}".rstrip())
