"""The runner: loop, leadership, errors."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import psycopg
import pytest

from django_pgjobs import signals
from django_pgjobs.conf import PgJobsSettings
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.maintenance.maintainer import Maintainer
from django_pgjobs.maintenance.reaper import Reaper
from django_pgjobs.maintenance.service import Report
from django_pgjobs.store.connecting import Session
from tests import factories


@dataclass
class Recording:
    """A service that writes down its runs."""

    name: str = "recording"
    interval: timedelta = timedelta(0)
    reports: list[Report | Exception] = field(default_factory=list)
    runs: int = 0
    has_run: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run_once(self, connection, *, batch_size):
        self.runs += 1
        self.has_run.release()
        report = self.reports.pop(0) if self.reports else Report()
        if isinstance(report, Exception):
            raise report
        return report


@pytest.fixture
def start(tables):
    """Return a function that runs a maintainer in a thread, and stops it at the end."""
    running = []

    def start(*services):
        maintainer = Maintainer(Session("default", "test"), services, random=Random(1))
        thread = threading.Thread(target=maintainer.run)
        thread.start()
        running.append((maintainer, thread))
        return maintainer, thread

    yield start
    for maintainer, thread in running:
        maintainer.stop()
        thread.join(20)
        assert not thread.is_alive()


def wait_for_runs(service, count):
    for _ in range(count):
        assert service.has_run.acquire(timeout=20)


def test_once_runs_every_service_until_it_has_nothing_more_to_do(tables):
    full = Recording(reports=[Report(is_full=True), Report(is_full=True)])
    other = Recording(name="other")

    Maintainer(Session("default", "test"), [full, other]).run_once()

    assert (full.runs, other.runs) == (3, 1)


def test_the_services_of_a_site_run_once_on_an_empty_database(tables, connection):
    Maintainer.from_settings(PgJobsSettings(), Registry()).run_once()

    count = connection.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'jobs_completed'::regclass"
    ).fetchone()
    assert count == (9,)


def test_a_service_that_fails_is_run_again_and_stops_no_other(start, caplog):
    failing = Recording(name="failing", reports=[RuntimeError("bad luck")])
    other = Recording(name="other")

    start(failing, other)
    wait_for_runs(failing, 2)
    wait_for_runs(other, 2)

    assert "The maintenance service 'failing' failed" in caplog.text


def test_an_outage_ends_the_turn_and_not_the_loop(start, caplog):
    service = Recording(reports=[psycopg.OperationalError("server closed the connection")])

    start(service)
    wait_for_runs(service, 2)

    assert "Maintenance failed, will retry" in caplog.text


def test_only_the_leader_runs_the_services(start, connection):
    one, other = Recording(), Recording()
    leader, thread = start(one)
    wait_for_runs(one, 1)
    start(other)
    wait_for_runs(one, 20)

    assert other.runs == 0
    leader.stop()
    thread.join(20)
    wait_for_runs(other, 1)


def test_a_leader_that_is_silent_is_replaced(start, connection):
    connection.execute(
        "INSERT INTO maintenance_leader VALUES ('maintenance', 'dead', now() - interval '1 s')"
    )
    service = Recording()

    start(service)

    wait_for_runs(service, 1)


def test_every_service_tells_what_it_did_by_a_signal(tables, connection):
    heard = []

    def receiver(service, report, **kwargs):
        heard.append((service, len(report.touched), report.notes))

    factories.pending_job(expires_at=factories.server_now() - timedelta(seconds=1))
    factories.scheduled_job(due_in=timedelta(seconds=-1))
    factories.pending_job(epoch=77)
    factories.CronScheduleFactory(active_since=factories.server_now() - timedelta(minutes=2))
    factories.running_job(lease_expired_by=timedelta(seconds=1))
    # Longer than the server has been up, so that the reaper grants grace.
    settings = PgJobsSettings(lease_duration=timedelta(days=3650))
    signals.maintenance_ran.connect(receiver)
    try:
        Maintainer.from_settings(settings, Registry()).run_once()
    finally:
        signals.maintenance_ran.disconnect(receiver)

    assert heard == [
        ("partitioner", 16, None),
        ("reaper", 0, {"grace": 1}),
        ("stager", 0, {"staged": 1}),
        ("schedule watch", 1, None),
        ("scheduler", 1, None),
        ("expirer", 1, None),
        ("epochs", 1, None),
    ]


def test_a_reap_is_told_by_a_signal(tables, connection):
    heard = []

    def receiver(service, report, **kwargs):
        heard.append((service, report.touched))

    reaper = Reaper(
        lease=timedelta(minutes=5),
        interval=timedelta(0),
        backoff_base=timedelta(seconds=1),
        backoff_cap=timedelta(seconds=1),
    )
    maintainer = Maintainer(Session("default", "test"), [reaper])
    maintainer.run_once()
    job = factories.running_job(lease_expired_by=timedelta(seconds=1))
    signals.maintenance_ran.connect(receiver)
    try:
        maintainer.run_once()
    finally:
        signals.maintenance_ran.disconnect(receiver)

    assert heard == [("reaper", [job.id])]
