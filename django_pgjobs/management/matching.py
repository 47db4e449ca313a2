"""What the commands have in common that act on jobs by their ids or by a filter."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError

from ..conf import get_settings
from ..exceptions import OperationError
from .starting import require_schema


class MatchingCommand(BaseCommand):
    """Acts on jobs: those of the ids given, or all that match the filter given.

    Attributes:
        verb: what it does to jobs.
        filters: options that make the filter.
    """

    verb: ClassVar[str]
    filters: ClassVar[tuple[str, ...]]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "id", type=int, nargs="*", help=f"Jobs to {self.verb}; or give a filter."
        )
        parser.add_argument("--job", help="Those of this name.")
        parser.add_argument("--queue", help="Those of this queue.")
        parser.add_argument("--tenant", type=int, help="Those of this tenant.")
        parser.add_argument("--all", action="store_true", help="All, if no filter is given.")
        parser.add_argument("--dry-run", action="store_true", help="Only count them.")

    def handle(self, *args: Any, **options: Any) -> None:
        filters = {name: options[name] for name in self.filters if options[name] is not None}
        if bool(options["id"]) + bool(filters) + options["all"] != 1:
            raise CommandError("Give either ids of jobs, or a filter such as --job, or --all.")
        require_schema(get_settings().database)
        try:
            if not options["id"]:
                self.act_on_matching(filters, options)
            elif options["dry_run"]:
                raise CommandError("--dry-run counts what a filter finds; ids were given.")
            else:
                self.act_on(options["id"], options)
        except OperationError as error:
            raise CommandError(str(error)) from None

    def act_on(self, ids: list[int], options: dict[str, Any]) -> None:
        """Act on the jobs of these ids."""
        raise NotImplementedError

    def act_on_matching(self, filters: dict[str, Any], options: dict[str, Any]) -> None:
        """Act on the jobs that match, or only count them."""
        raise NotImplementedError
