"""What happens in the demo, in order. Imported after ``django.setup()``."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from subprocess import Popen
from typing import Final

from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from django_pgjobs.models import ActiveJob, CompletedJob, CronSchedule
from django_pgjobs.states import JobStatus

from .browser import Browser
from .findings import Findings, collect
from .mail import MailCatcher
from .processes import command, wait_until, website
from .report import show
from .shop.catalogue import load
from .shop.jobs import daily_report, export_orders
from .shop.models import Merchant
from .shopping import place_orders

ORDERS: Final = Path(__file__).parent / "data" / "orders.csv"

#: The merchant that asks for an export.
EXPORTING: Final = "kaesewerk"

#: How long the jobs may take after the last order.
PATIENCE_SECONDS: Final = 60


def play(catcher: MailCatcher, logs: Path) -> bool:
    """Run the demo; return whether everything came out as it should.

    Args:
        catcher: the mail server.
        logs: a directory for the output of the processes, shown when something is wrong.
    """
    began = time.monotonic()
    _say("Make the tables, the merchants and their products")
    call_command("migrate", verbosity=0)
    load(ORDERS)
    try:
        findings = _run(catcher, logs)
    except OSError as error:
        # A time-out, a process that ended, or a page that was refused.
        print(f"\n{error}")
        _show_logs(logs)
        findings = collect(catcher, ORDERS)
    finally:
        connection.close()
    is_right = show(findings, elapsed=time.monotonic() - began)
    if not is_right:
        _show_logs(logs)
    return is_right


def _run(catcher: MailCatcher, logs: Path) -> Findings:
    with ExitStack() as started:
        _say("Start maintenance, two workers and the web server")
        started.enter_context(command("pgjobs_maintain", log=logs / "maintenance"))
        worker = ("pgjobs_worker", "--queues", "default,email", "--concurrency", "8")
        started.enter_context(command(*worker, log=logs / "worker"))
        exporter = ("pgjobs_worker", "--queues", "exports", "--concurrency", "1")
        first = started.enter_context(command(*exporter, log=logs / "exporter"))
        site = started.enter_context(website(logs / "website"))

        _say("Ask for an export, and kill the worker that makes it")
        _export(site)
        _kill(first)
        started.enter_context(command(*exporter, log=logs / "exporter"))

        _say("Place the orders over HTTP")
        placed = place_orders(site, ORDERS)
        _make_report_due()

        _say("Wait until no job is left")
        wait_until(_is_done, "all jobs are finished", seconds=PATIENCE_SECONDS)
        return collect(catcher, ORDERS, answered=len(placed), page=Browser(site).get("/"))


def _export(site: str) -> None:
    merchant = Merchant.objects.get(slug=EXPORTING)
    Browser(site).post(f"/merchants/{merchant.slug}/export/", {})
    running = ActiveJob.objects.running().of_job(export_orders.name)
    wait_until(running.exists, "the export runs", seconds=30)


def _kill(worker: Popen[bytes]) -> None:
    worker.kill()
    worker.wait()


def _make_report_due() -> None:
    """Pretend that nothing has fired the schedule for three days. It catches up with one slot."""
    then = timezone.now() - timedelta(days=3)
    schedule = CronSchedule.objects.filter(job_name=daily_report.name)
    schedule.update(active_since=then, next_run_at=None)


def _is_done() -> bool:
    reported = CompletedJob.objects.of_job(daily_report.name)
    return reported.exists() and not ActiveJob.objects.exclude(status=JobStatus.BLOCKED).exists()


def _say(what: str) -> None:
    print(f"… {what}", flush=True)


def _show_logs(logs: Path) -> None:
    for log in sorted(logs.iterdir()):
        lines = log.read_text(errors="replace").splitlines()[-20:]
        print(f"\nThe end of the output of {log.name}:")
        print("\n".join(f"    {line}" for line in lines))
