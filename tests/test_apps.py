"""When things are imported, and what an import does. Each import is in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.process

# An alias at which nobody listens: a query at import would fail.
SETTINGS = """
    SECRET_KEY = "x"
    INSTALLED_APPS = ["shop", "django.contrib.auth", "django.contrib.contenttypes",
                      "django_pgjobs"]
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1",
                             "PORT": "1", "NAME": "none"}}
    USE_TZ = True
"""
FILES = {"package": "__init__"}
JOBS = """
    from django_pgjobs import job

    @job
    def send(order_id: int) -> None:
        pass
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a program beside a project, whose app has these modules."""

    def run(program, **modules):
        for name, text in {"package": "", **modules}.items():
            path = tmp_path / "shop" / f"{FILES.get(name, name)}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        (tmp_path / "settings.py").write_text(textwrap.dedent(SETTINGS), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
            "DJANGO_SETTINGS_MODULE": "settings",
        }
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.split()

    return run


SHOW = """
    import django
    django.setup()
    from django_pgjobs.definitions.registry import registry
    print(*sorted(definition.name for definition in registry))
"""


def test_the_jobs_of_an_app_are_found(run):
    assert run(SHOW, jobs=JOBS) == ["shop.jobs.send"]


def test_a_job_may_be_declared_before_apps_are_ready(run):
    models = """
        from django.db import models
        from django_pgjobs import job

        class Order(models.Model):
            class Meta:
                app_label = "shop"

        @job
        def pay(order_id: int) -> None:
            pass
    """

    # Its app comes before ours, so its models are imported before ours too.
    assert run(SHOW, models=models) == ["shop.models.pay"]


def test_a_job_may_be_declared_in_the_package_of_an_app(run):
    assert run(SHOW, package=JOBS) == ["shop.send"]


def test_a_job_may_be_declared_while_another_app_gets_ready(run):
    apps = """
        from django.apps import AppConfig

        class ShopConfig(AppConfig):
            name = "shop"

            def ready(self):
                from . import tasks
    """

    assert run(SHOW, apps=apps, tasks=JOBS) == ["shop.tasks.send"]


def test_an_import_needs_no_settings(run):
    program = """
        import os
        del os.environ["DJANGO_SETTINGS_MODULE"]
        import django_pgjobs
        from django.conf import settings
        from django_pgjobs import *

        @job
        def send(): pass

        print(send.name, settings.configured)
    """

    assert run(program) == ["__main__.send", "False"]


def test_a_process_that_enqueues_imports_nothing_that_runs_jobs(run):
    program = """
        import sys
        import django
        django.setup()
        from shop.jobs import send
        send.prepare(1)
        parts = ("worker", "maintenance", "administration", "management", "admin")
        print(*[name for name in sys.modules if name.startswith(tuple(
            f"django_pgjobs.{part}" for part in parts))])
    """

    assert run(program, jobs=JOBS) == []


def test_getting_ready_needs_no_database(run):
    """Nobody listens at the address of the settings."""
    program = """
        import django
        django.setup()
        from django.db import connections
        from django_pgjobs.checks import check_settings
        print(len(check_settings()), *[c.alias for c in connections.all() if c.connection])
    """

    assert run(program, jobs=JOBS) == ["0"]
