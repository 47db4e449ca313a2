"""``manage.py pgjobs_worker``"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError

from ...conf import get_settings
from ...definitions.pools import PROCESSES, THREADS
from ...worker.queues import parse_queues
from ...worker.worker import WorkerOptions
from ..arguments import positive
from ..reloading import is_trial
from ..working import run_worker, supervise


class Command(BaseCommand):
    """Run a worker until it is told to stop."""

    help = "Run jobs until told to stop (SIGTERM or SIGINT; a later one exits at once)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queues",
            type=queues,
            help="Queues to serve with their weights, as in critical=5,default=3,bulk. "
            "Every queue there is unless given.",
        )
        parser.add_argument(
            "--strict",
            action="store_true",
            help="Serve the queues strictly in the order of --queues.",
        )
        parser.add_argument(
            "--concurrency", type=positive, help="Jobs to run at a time in threads."
        )
        parser.add_argument(
            "--async-concurrency",
            type=positive,
            help="Jobs defined with async def to run at a time in an event loop.",
        )
        parser.add_argument(
            "--pool",
            choices=[THREADS, PROCESSES],
            default=THREADS,
            help="Where to run handlers that declare no pool: in threads, or in processes.",
        )
        parser.add_argument(
            "--process-concurrency", type=positive, help="Jobs to run at a time in processes."
        )
        parser.add_argument(
            "--processes",
            type=positive,
            help="Run so many workers, each a process of its own, and start anew those that end.",
        )
        parser.add_argument(
            "--maintain",
            action="store_true",
            help="Run maintenance in this process too, for small sites.",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="Start anew when the code changes, for development.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["reload"]:
            _refuse_reload(options)
        if options["strict"] and options["queues"] is None:
            raise CommandError(
                "--strict keeps to the order of --queues. Name them, most urgent first."
            )
        settings = get_settings()
        worker_options = WorkerOptions(
            queues=options["queues"],
            is_strict=options["strict"],
            concurrency=options["concurrency"] or settings.concurrency,
            async_concurrency=options["async_concurrency"] or settings.async_concurrency,
            settings=settings,
            pool=options["pool"],
            process_concurrency=options["process_concurrency"],
        )
        if is_trial():
            return
        if options["processes"] is None:
            run_worker(worker_options, maintains=options["maintain"], reloads=options["reload"])
        supervise(options["processes"], worker_options, maintains=options["maintain"])


def _refuse_reload(options: dict[str, Any]) -> None:
    if not django_settings.DEBUG:
        raise CommandError(
            "--reload is for development, and settings.DEBUG is False. Where jobs matter, restart "
            "the worker with each deploy."
        )
    if options["processes"] is not None:
        raise CommandError("--reload is for one worker. Leave out --processes.")


def queues(text: str) -> dict[str, int]:
    """Return the weights of ``--queues``."""
    try:
        return parse_queues(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
