"""Commands say in one line what keeps them from starting."""

from __future__ import annotations

import json
import logging

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from django_pgjobs.terminal import log_to_stderr

MISSING = (
    "The tables of django_pgjobs are not up to date: the migration 0001_initial has not been "
    "applied. Run manage.py migrate."
)


@pytest.fixture
def unmigrated(tables):
    """Make the last migration look as if it had not been applied."""
    recorder = MigrationRecorder(connections["default"])
    recorder.record_unapplied("django_pgjobs", "0001_initial")
    yield
    recorder.record_applied("django_pgjobs", "0001_initial")


@pytest.fixture
def unreachable(tables, settings):
    """Point the database at a port on which nobody listens."""
    connection = connections["default"]
    port = connection.settings_dict["PORT"]
    connection.close()
    connection.settings_dict["PORT"] = "1"
    yield
    connection.settings_dict["PORT"] = port


@pytest.mark.parametrize(
    "command",
    [["pgjobs_worker"], ["pgjobs_maintain"], ["pgjobs_maintain", "--once"], ["pgjobs_explain"]],
    ids=" ".join,
)
def test_a_missing_migration_is_named(unmigrated, command):
    with pytest.raises(CommandError) as refused:
        call_command(*command)

    assert str(refused.value) == MISSING


@pytest.mark.parametrize(
    "command", [["pgjobs_maintain", "--once"], ["pgjobs_explain"]], ids=" ".join
)
def test_a_server_that_cannot_be_reached_is_said_in_one_line(unreachable, command):
    with pytest.raises(CommandError) as refused:
        call_command(*command)

    assert str(refused.value).startswith("The database 'default' cannot be reached: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("fault", ["unmigrated", "unreachable"])
def test_health_stays_json(tables, request, fault, capsys):
    request.getfixturevalue(fault)

    with pytest.raises(SystemExit) as ended:
        call_command("pgjobs_health")

    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert answer["is_healthy"] is False
    assert len(answer["problems"]) == 1


def test_without_a_logging_configuration_lines_go_to_the_terminal(monkeypatch):
    logger = logging.getLogger("django_pgjobs")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    level = logger.level
    logger.setLevel(logging.NOTSET)
    try:
        log_to_stderr()
        log_to_stderr()

        assert len(logger.handlers) == 1
        assert logger.isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(level)


def test_a_level_that_the_project_has_set_is_kept(monkeypatch):
    logger = logging.getLogger("django_pgjobs")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        log_to_stderr()

        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(level)


def test_a_logging_configuration_is_left_alone(monkeypatch):
    logger = logging.getLogger("django_pgjobs")
    own = logging.NullHandler()
    monkeypatch.setattr(logger, "handlers", [own])

    log_to_stderr()

    assert logger.handlers == [own]
