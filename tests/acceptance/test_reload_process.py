"""Workers that start anew when their code changes (acceptance A67)."""

from __future__ import annotations

import os
import signal
from textwrap import dedent

import pytest

from tests import factories
from tests.fix_workers import wait_until

pytestmark = pytest.mark.process

JOBS = """
    from django_pgjobs import job
    from tests.acceptance.jobs import wait_for_gate
    from tests.ledger import note

    VERSION = {version}

    @job(name="edited.work", max_attempts=5)
    def work(context, gate=None):
        note(context, "start")
        if gate:
            wait_for_gate(gate)
        note(context, "end")
        return VERSION
"""


class Project:
    """A project that somebody edits.

    Args:
        folder: where its files are.
    """

    def __init__(self, folder):
        self._folder = folder
        (folder / "edited").mkdir()
        self.save("edited/__init__.py", "")
        self.save_settings(debug=True)
        self.save_version(1)

    def save_settings(self, *, debug):
        """Save the settings: those of the other acceptance tests."""
        self.save(
            "edited_settings.py",
            f"""
            from tests.acceptance.settings import *

            INSTALLED_APPS = [*INSTALLED_APPS, "edited"]
            DEBUG = {debug}
            """,
        )

    def save_version(self, version):
        """Save the job's code."""
        self.save("edited/jobs.py", JOBS.format(version=version))

    def save(self, name, text):
        """Save a file as an editor does: at once, and with a later time than before."""
        path = self._folder / name
        draft = path.with_suffix(".draft")
        draft.write_text(dedent(text))
        if path.exists():
            # Python tells compiled files by whole seconds.
            later = path.stat().st_mtime + 10
            os.utime(draft, (later, later))
        draft.replace(path)


@pytest.fixture
def project(tmp_path, processes):
    """Return a project that is of version 1; commands run in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    processes.environment["PYTHONPATH"] = str(folder)
    processes.environment["DJANGO_SETTINGS_MODULE"] = "edited_settings"
    return Project(folder)


@pytest.fixture
def reloading(processes, project):
    """Return a function that starts a worker which watches the project."""

    def start(*options, **more):
        worker = processes.worker("--reload", *options, **more)
        wait_until(lambda: "watching the code" in worker.output(), "it watches")
        return worker

    return start


def enqueue(**payload):
    """Enqueue the project's job; return its id."""
    return factories.pending_job(job_name="edited.work", payload=payload).id


def version_of(processes, job_id):
    """Return the version of the code that completed a job."""
    processes.wait_for_status(job_id, "completed")
    return processes.value("SELECT result FROM jobs_completed WHERE id = %s", job_id)


def starts_of(worker):
    """Return how often a worker has started in a process."""
    return worker.output().count("worker started")


def drain_for_version_2(processes, project, worker, gate):
    """Save new code while a job waits for ``gate`` and the worker drains; return the job's id."""
    job = enqueue(gate=str(gate))
    processes.wait_for_start(job)
    project.save_version(2)
    wait_until(lambda: "worker stopping" in worker.output(), "the worker drains")
    return job


def test_a_running_job_is_finished_by_the_old_code_and_the_next_is_run_by_the_new(
    processes, project, reloading, tmp_path
):
    """A67: and maintenance in the same process hands over, and starts anew too."""
    gate = tmp_path / "gate"
    worker = reloading("--maintain")

    old = drain_for_version_2(processes, project, worker, gate)
    new = enqueue()
    gate.touch()

    assert version_of(processes, old) == 1
    assert version_of(processes, new) == 2
    assert [event.pid for event in processes.events("start")] == [worker.pid, worker.pid]
    wait_until(lambda: worker.output().count("maintenance leads") == 2, "maintenance leads again")
    assert worker.output().count("maintenance stopped") == 1
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.output().count("maintenance stopped") == 2
    assert starts_of(worker) == 2
    processes.check_invariants([old, new])


def test_a_job_that_outlives_the_shutdown_timeout_is_handed_back(
    processes, project, reloading, tmp_path
):
    """A67: its attempt does not count, and the new code takes it up."""
    gate = tmp_path / "gate"
    worker = reloading(durations={"SHUTDOWN_TIMEOUT": 0.2})
    job = enqueue(gate=str(gate))
    processes.wait_for_start(job)

    project.save_version(2)
    processes.wait_for_start(job, claim=2)
    gate.touch()

    assert version_of(processes, job) == 2
    outcomes = "SELECT string_agg(outcome::text, ',') FROM job_attempts WHERE job_id = %s"
    assert processes.value(outcomes, job) == "released"
    assert processes.value("SELECT attempt FROM jobs_completed WHERE id = %s", job) == 1
    assert worker.popen.poll() is None
    processes.check_invariants([job])


NO_SYNTAX = "VERSION = "
FAILS_A_CHECK = """
    from django.core.checks import Error, register

    @register
    def refuse(**kwargs):
        return [Error("This is wrong.", id="edited.E001")]
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [(NO_SYNTAX, "SyntaxError: invalid syntax"), (FAILS_A_CHECK, "(edited.E001) This is wrong.")],
    ids=["syntax", "check"],
)
def test_code_that_does_not_load_changes_nothing_until_it_is_repaired(
    processes, project, reloading, code, reason
):
    worker = reloading()

    project.save("edited/jobs.py", code)
    wait_until(lambda: "does not load" in worker.output(), "the trial fails")

    assert reason in worker.output()
    assert version_of(processes, enqueue()) == 1
    project.save_version(3)
    wait_until(lambda: starts_of(worker) == 2, "it starts anew")
    assert version_of(processes, enqueue()) == 3


def test_settings_with_which_it_would_be_refused_change_nothing(processes, project, reloading):
    worker = reloading()

    project.save_settings(debug=False)
    wait_until(lambda: "does not load" in worker.output(), "the trial fails")

    assert "settings.DEBUG is False" in worker.output()
    assert version_of(processes, enqueue()) == 1
    assert starts_of(worker) == 1


def test_code_that_is_broken_while_the_worker_drains_is_waited_for(
    processes, project, reloading, tmp_path
):
    gate = tmp_path / "gate"
    worker = reloading()
    old = drain_for_version_2(processes, project, worker, gate)

    project.save("edited/jobs.py", NO_SYNTAX)
    gate.touch()
    wait_until(lambda: "does not load" in worker.output(), "the trial fails")
    project.save_version(3)

    assert version_of(processes, enqueue()) == 3
    assert version_of(processes, old) == 1


def test_who_stops_a_worker_that_drains_for_new_code_stops_it(
    processes, project, reloading, tmp_path
):
    gate = tmp_path / "gate"
    worker = reloading()
    job = drain_for_version_2(processes, project, worker, gate)

    worker.send(signal.SIGTERM)
    gate.touch()

    assert worker.wait() == 0
    assert starts_of(worker) == 1
    assert version_of(processes, job) == 1


def test_a_worker_without_the_option_keeps_its_code(processes, project, reloading):
    """A67: off by default."""
    reloads = reloading("--queues", "default")
    keeps = processes.worker("--queues", "other")

    project.save_version(2)
    wait_until(lambda: starts_of(reloads) == 2, "the other one has seen it")

    job = factories.pending_job(job_name="edited.work", queue_name="other").id
    assert version_of(processes, job) == 1
    assert starts_of(keeps) == 1


@pytest.mark.parametrize(
    ("debug", "options", "complaint"),
    [
        (False, [], "--reload is for development, and settings.DEBUG is False."),
        (True, ["--processes", "2"], "--reload is for one worker. Leave out --processes."),
    ],
)
def test_it_is_refused_where_it_would_do_harm(processes, project, debug, options, complaint):
    project.save_settings(debug=debug)

    worker = processes.start("pgjobs_worker", "--reload", *options)

    assert worker.wait() == 1
    assert f"CommandError: {complaint}" in worker.output()
