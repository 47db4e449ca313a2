"""The reference has an entry for everything that a user can name."""

from __future__ import annotations

import argparse
import dataclasses
import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.dispatch import Signal

import django_pgjobs
from django_pgjobs import signals
from django_pgjobs.conf import PgJobsSettings
from django_pgjobs.exceptions import PgJobsError
from django_pgjobs.states import TRANSITIONS, JobStatus, Outcome

from .blocks import DOCS, blocks_of

PACKAGE = Path(django_pgjobs.__file__).parent
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
README = DOCS.parent / "README.md"


def reference(name):
    return (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")


def rows(text):
    """Return the cells of all tables of a page, without backquotes, by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("` "): [cell.strip("`") for cell in row] for row in cells}


def own_options(command):
    """Return the options of a command that are not Django's."""
    parser = load_command_class("django_pgjobs", command).create_parser("manage.py", command)
    common = BaseCommand().create_parser("manage.py", "common")
    known = {option for action in common._actions for option in action.option_strings}
    return {
        option
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
        for option in action.option_strings
        if option not in known
    }


def commands():
    folder = PACKAGE / "management" / "commands"
    return sorted(file.stem for file in folder.glob("*.py") if not file.stem.startswith("_"))


def subclasses(cls):
    for subclass in cls.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


@pytest.mark.parametrize("field", dataclasses.fields(PgJobsSettings), ids=lambda field: field.name)
def test_each_setting_is_described_with_its_default(field):
    row = rows(reference("settings"))[field.name.upper()]

    assert eval(row[1], {"timedelta": timedelta}) == field.default  # noqa: S307 - our own page


@pytest.mark.parametrize("command", commands())
def test_each_command_and_option_is_described(command):
    page = reference("commands")
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(f"{command}\n")]

    described = {name for name in rows(text) if name.startswith("--")}

    assert described == own_options(command)


def test_each_check_is_described():
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    ids = {found for source in sources for found in re.findall(r"pgjobs\.[EW]\d{3}", source)}

    assert ids == {name for name in rows(reference("checks")) if name.startswith("pgjobs.")}


def test_each_exception_is_described_with_its_base():
    described = rows(reference("exceptions"))
    exceptions = {
        cls.__name__: cls
        for cls in {PgJobsError, *subclasses(PgJobsError)}
        if cls.__module__.startswith("django_pgjobs.")
    }

    assert {name for name in described if name in exceptions} == set(exceptions)
    for name, cls in exceptions.items():
        assert described[name][1] == cls.__bases__[0].__name__


def test_each_permission_is_described():
    permissions = {
        f"django_pgjobs.{codename}"
        for model in apps.get_app_config("django_pgjobs").get_models()
        for codename, _ in model._meta.permissions
    }
    described = rows(reference("permissions"))

    assert {name for name in described if name.startswith("django_pgjobs.")} == permissions


def test_each_signal_is_described():
    # The page is made of the module's docstring.
    names = [name for name, value in vars(signals).items() if isinstance(value, Signal)]

    assert [name for name in names if f"``{name}(" not in signals.__doc__] == []


def test_each_statement_is_described():
    # The page is made of the headers of the folders that it names.
    folders = {path.parent.name for path in (PACKAGE / "sql").rglob("*.sql")}

    assert set(re.findall(r"^```\{statements\} (\w+)$", reference("sql"), re.M)) == folders


def test_each_table_is_described():
    migrations = (PACKAGE / "migrations" / "sql").glob("*.up.sql")
    sources = [path.read_text(encoding="utf-8") for path in migrations]
    tables = {
        name
        for source in sources
        for name in re.findall(r"^CREATE (?:UNLOGGED )?TABLE (\w+) \(", source, re.M)
    }

    assert tables - set(rows(reference("schema"))) == set()


def test_the_transitions_are_those_of_the_code():
    states, _, _ = reference("states").partition("\n## ")
    described = rows(states)

    for status in JobStatus:
        found = re.findall(r"`?(\w+)`?", described[status.value][2])
        wanted = {to.value for to in TRANSITIONS[status]}
        assert {word for word in found if word in JobStatus.values} == wanted, status


def test_each_outcome_is_described():
    assert set(Outcome.values) <= set(rows(reference("states")))


def test_each_public_name_is_described():
    page = reference("api")

    assert [name for name in django_pgjobs.__all__ if not re.search(rf":: {name}\b", page)] == []


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_the_python_on_a_page_is_valid(page):
    for block in blocks_of(page):
        if block.language == "python":
            compile(block.code, page.name, "exec")


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_the_files_that_a_page_refers_to_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", text)

    assert [target for target in targets if not (page.parent / target).exists()] == []
