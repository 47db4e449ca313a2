"""What Prometheus is told."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db import connections
from django.test import RequestFactory
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from django_pgjobs.administration import operations
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import registry as definitions
from django_pgjobs.observability.metrics import register
from tests import factories
from tests.docs.blocks import DOCS, blocks_of
from tests.store.calls import claim_jobs

from .test_health import add_leader, add_worker

PAGE = DOCS / "how-to" / "watch-with-prometheus.md"


def parse(text):
    """Return the value of each sample by its name and labels."""
    return {
        (sample.name, *sample.labels.items()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape():
    registry = CollectorRegistry()
    register(registry)
    return parse(generate_latest(registry).decode())


def of_queue(metric, queue="default"):
    return (f"pgjobs_queue_{metric}", ("queue", queue))


def breaker_states(samples, name="bank"):
    states = ("closed", "open", "half_open")
    keys = {
        state: ("pgjobs_breaker_state", ("breaker", name), ("state", state)) for state in states
    }
    return {state: samples[key] for state, key in keys.items()}


@pytest.fixture
def nowhere(monkeypatch):
    """Let no new connection find the server."""
    monkeypatch.setitem(connections["default"].settings_dict, "PORT", "1")


@pytest.fixture
def bank(connection):
    """Declare a breaker in this process."""

    def pay():
        pass

    name = "tests.metrics.pay"
    definitions.add(JobDefinition(name=name, function=pay, breaker="bank"))
    yield name
    del definitions._definitions[name]


def test_an_idle_site(connection):
    samples = scrape()

    assert samples == {
        ("pgjobs_up",): 1,
        ("pgjobs_problems",): 1,
        ("pgjobs_workers",): 0,
        ("pgjobs_maintenance_alive",): 0,
        ("pgjobs_expired_leases",): 0,
        ("pgjobs_overdue_jobs",): 0,
        ("pgjobs_late_schedules",): 0,
        ("pgjobs_default_partition_rows",): 0,
    }


def test_a_site_at_work(connection):
    add_worker(connection)
    add_leader(connection)
    factories.pending_jobs(2, scheduled_at=factories.server_now() - timedelta(minutes=2))
    factories.running_job()

    samples = scrape()

    assert samples["pgjobs_problems",] == 0
    assert samples["pgjobs_workers",] == 1
    assert samples["pgjobs_maintenance_alive",] == 1
    assert samples[of_queue("pending_jobs")] == 2
    assert samples[of_queue("running_jobs")] == 1
    assert samples[of_queue("paused")] == 0
    assert 120 <= samples[of_queue("oldest_pending_seconds")] < 240


def test_what_is_left_undone(connection):
    factories.scheduled_job(due_in=timedelta(seconds=-20))
    factories.completed_job()
    factories.CronScheduleFactory(problem="No such zone.")
    factories.running_job(lease_expires=factories.server_now() - timedelta(seconds=1))

    samples = scrape()

    assert samples["pgjobs_overdue_jobs",] == 1
    assert samples["pgjobs_default_partition_rows",] == 1
    assert samples["pgjobs_late_schedules",] == 1
    assert samples["pgjobs_expired_leases",] == 1


def test_a_paused_queue(connection):
    factories.PausedQueueFactory(queue_name="email")

    samples = scrape()

    assert samples[of_queue("paused", "email")] == 1
    assert samples[of_queue("pending_jobs", "email")] == 0
    assert samples[of_queue("oldest_pending_seconds", "email")] == 0


def test_a_breaker_that_was_opened_by_hand(connection, bank):
    operations.open_breaker(None, "bank", reason='They said "tomorrow".')
    factories.pending_jobs(2, job_name=bank)
    assert claim_jobs(connection).jobs == []

    samples = scrape()

    assert breaker_states(samples) == {"closed": 0, "open": 1, "half_open": 0}
    reason = 'Opened by the system: They said "tomorrow".'
    assert samples["pgjobs_breaker_info", ("breaker", "bank"), ("reason", reason)] == 1
    assert samples["pgjobs_breaker_held_jobs", ("breaker", "bank")] == 2


@pytest.mark.parametrize("state", ["closed", "half_open"])
def test_the_other_states_of_a_breaker(connection, state):
    factories.BreakerFactory(state=state, reason="So it is.")

    samples = scrape()

    states = breaker_states(samples)
    assert [name for name, value in states.items() if value] == [state]
    assert samples["pgjobs_breaker_info", ("breaker", "bank"), ("reason", "So it is.")] == 1
    assert samples["pgjobs_breaker_held_jobs", ("breaker", "bank")] == 0


def test_a_database_that_is_away(nowhere, caplog):
    assert scrape() == {("pgjobs_up",): 0}

    assert "metrics not read" in caplog.text


def test_to_register_does_not_ask_the_database(nowhere, caplog):
    # The global registry describes what is registered with it.
    registry = CollectorRegistry(auto_describe=True)

    collector = register(registry)

    assert caplog.text == ""
    with pytest.raises(ValueError, match="pgjobs_up"):
        register(registry)
    registry.unregister(collector)


def test_a_scrape_leaves_no_connection(connection):
    scrape()

    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgjobs metrics'"
    deadline = factories.server_now() + timedelta(seconds=10)
    while connection.execute(query).fetchone() != (0,):
        assert factories.server_now() < deadline


def test_the_view_of_the_documentation(connection):
    (code,) = [block.code for block in blocks_of(PAGE) if block.language == "python"]
    names = {}
    exec(code, names)  # noqa: S102 - our own page

    response = names["metrics_view"](RequestFactory().get("/metrics"))

    assert response["Content-Type"].startswith("text/plain")
    assert parse(response.content.decode())["pgjobs_up",] == 1


def test_the_documentation_names_each_metric():
    registry = CollectorRegistry()
    names = {family.name for family in register(registry).describe()}
    lines = PAGE.read_text(encoding="utf-8").splitlines()

    assert {line.split("`")[1] for line in lines if line.startswith("| `pgjobs_")} == names


@pytest.mark.process
def test_without_the_extra_it_is_named():
    code = (
        "import sys; sys.modules['prometheus_client'] = None; import django; django.setup(); "
        "import django_pgjobs.observability.metrics"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert 'python -m pip install "django-pgjobs[prometheus]"' in ended.stderr.splitlines()[-1]
