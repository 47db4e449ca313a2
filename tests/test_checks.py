"""What ``manage.py check`` says about a project."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_pgjobs.checks import check_settings

OURS = "django_pgjobs.routers.PgJobsRouter"


@pytest.fixture
def add_alias(monkeypatch):
    """Return a function that adds a database, which nobody connects to."""
    added = []

    def add_alias(alias, engine):
        configured = {**connections.settings["default"], "ENGINE": engine}
        monkeypatch.setitem(connections.settings, alias, configured)
        added.append(alias)

    yield add_alias
    for alias in added:
        if hasattr(connections._connections, alias):
            del connections[alias]


def found():
    return [(message.id, message.msg, message.hint) for message in check_settings()]


def test_a_project_without_the_setting_is_in_order(settings):
    settings.PGJOBS = {}

    assert found() == []


@pytest.mark.django_db
def test_the_command_reports_what_the_checks_find(settings):
    settings.PGJOBS = {"CONCURENCY": 1}

    with pytest.raises(CommandError, match=r"pgjobs\.E001"):
        call_command("check")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"CONCURENCY": 1}, "Unknown PGJOBS key 'CONCURENCY'. Did you mean 'CONCURRENCY'?"),
        ({"CONCURRENCY": 0}, "PGJOBS['CONCURRENCY'] must be greater than zero, but is 0."),
        ([], "PGJOBS must be a dict, not []."),
    ],
    ids=["key", "value", "type"],
)
def test_a_setting_that_would_raise_is_an_error(settings, value, problem):
    settings.PGJOBS = value

    assert found() == [("pgjobs.E001", problem, None)]


def test_a_database_that_does_not_exist_is_an_error(settings):
    settings.PGJOBS = {"DATABASE": "queue"}

    assert found() == [
        (
            "pgjobs.E002",
            "PGJOBS['DATABASE'] is 'queue', which is not in DATABASES.",
            "Known: default.",
        )
    ]


def test_a_database_to_listen_on_that_does_not_exist_is_an_error(settings):
    settings.PGJOBS = {"LISTEN_DATABASE": "direct"}

    assert found() == [
        (
            "pgjobs.E002",
            "PGJOBS['LISTEN_DATABASE'] is 'direct', which is not in DATABASES.",
            "Known: default.",
        )
    ]


def test_a_database_that_is_not_postgresql_is_an_error(settings, add_alias):
    add_alias("files", "django.db.backends.sqlite3")
    settings.PGJOBS = {"DATABASE": "files"}

    assert found() == [
        (
            "pgjobs.E003",
            "django_pgjobs needs PostgreSQL, but DATABASES['files'] uses "
            "django.db.backends.sqlite3.",
            "Point PGJOBS['DATABASE'] at an alias of django.db.backends.postgresql.",
        )
    ]


def test_another_database_without_a_router_is_a_warning(settings, add_alias):
    add_alias("jobs", "django.db.backends.postgresql")
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = []

    assert found() == [
        (
            "pgjobs.W001",
            "PGJOBS['DATABASE'] is 'jobs', but the database routers send the models of "
            "django_pgjobs elsewhere, so that migrate makes their tables there and the admin "
            "writes there.",
            f"Put '{OURS}' first in DATABASE_ROUTERS.",
        )
    ]


class SendsEverythingAway:
    def db_for_write(self, model, **hints):
        return "other"


class MigratesNothing:
    def allow_migrate(self, db, app_label, **hints):
        return False


@pytest.mark.parametrize("name", ["SendsEverythingAway", "MigratesNothing"])
def test_a_router_that_takes_our_models_away_is_a_warning(settings, name):
    settings.DATABASE_ROUTERS = [f"{__name__}.{name}"]

    assert [id_ for id_, _, _ in found()] == ["pgjobs.W001"]


def test_our_router_settles_it(settings, add_alias):
    add_alias("jobs", "django.db.backends.postgresql")
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = [OURS, f"{__name__}.SendsEverythingAway"]

    assert found() == []


def test_checks_do_not_connect(settings, add_alias):
    """Without the mark of pytest-django a query would be an error."""
    add_alias("jobs", "django.db.backends.postgresql")
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = [OURS]

    check_settings()

    assert connections["jobs"].connection is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("shop.middleware.timing", "must be a list of dotted paths"),
        ([1], "must be a list of dotted paths"),
        (["nowhere.at_all"], "names 'nowhere.at_all', which cannot be imported"),
    ],
)
def test_middleware_that_is_none_is_an_error(settings, value, problem):
    settings.PGJOBS = {"MIDDLEWARE": value}

    ((check, message, _),) = found()

    assert check == ("pgjobs.E004" if value == ["nowhere.at_all"] else "pgjobs.E001")
    assert problem in message
