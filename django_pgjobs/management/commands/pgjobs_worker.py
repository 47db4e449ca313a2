"""``manage.py pgjobs_worker``"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from threading import Thread
from typing import Any

from django.core.management.base import BaseCommand

from ...conf import get_settings
from ...definitions.pools import PROCESSES, THREADS
from ...definitions.registry import registry
from ...maintenance.maintainer import Maintainer
from ...terminal import log_to_stderr
from ...worker.queues import parse_queues
from ...worker.worker import Worker, WorkerOptions
from ..arguments import positive
from ..starting import wait_for_schema


class Command(BaseCommand):
    """Run a worker until it is told to stop."""

    help = "Run jobs until told to stop (SIGTERM or SIGINT; a second one exits at once)."

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
            "--maintain",
            action="store_true",
            help="Run maintenance in this process too, for small sites.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        settings = get_settings()
        worker = Worker(
            WorkerOptions(
                queues=options["queues"],
                is_strict=options["strict"],
                concurrency=options["concurrency"] or settings.concurrency,
                async_concurrency=options["async_concurrency"] or settings.async_concurrency,
                settings=settings,
                pool=options["pool"],
                process_concurrency=options["process_concurrency"],
            ),
            registry,
        )
        received = _stop_on_signals(worker)
        log_to_stderr()
        wait_for_schema(settings.database, is_stopped=lambda: bool(received))
        maintainer = Maintainer.from_settings(settings, registry) if options["maintain"] else None
        if maintainer:
            Thread(target=maintainer.run, name="pgjobs-maintenance", daemon=True).start()
        reason = worker.run()
        if maintainer:
            maintainer.stop()
        if worker.has_unfinished_handlers:
            # Their jobs have been given back; their threads would keep the process alive.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(reason.value)
        sys.exit(reason.value)


def _stop_on_signals(worker: Worker) -> list[int]:
    """Have signals stop the worker; return the list to which they are added."""
    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(128 + number)
        worker.stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return received


def queues(text: str) -> dict[str, int]:
    """Return the weights of ``--queues``."""
    try:
        return parse_queues(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
