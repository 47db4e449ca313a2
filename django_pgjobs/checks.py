"""System checks: errors ``pgjobs.E…``, warnings ``pgjobs.W…``; see docs/reference/checks.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from .conf import get_settings
from .definitions.middleware import find_factory


@register()
def check_settings(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Report what is wrong with PGJOBS.

    E001 its keys and values, E002 and E003 its databases, E004 its middleware, W001 a missing
    router.
    """
    try:
        settings = get_settings()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="pgjobs.E001")]
    problems = _problems_of_middleware(settings.middleware)
    problems += _problems_of_database("DATABASE", settings.database)
    if settings.listen_database is not None:
        problems += _problems_of_database("LISTEN_DATABASE", settings.listen_database)
    return problems or _problems_of_routers(settings.database)


def _problems_of_middleware(paths: Sequence[str]) -> list[CheckMessage]:
    problems: list[CheckMessage] = []
    for path in paths:
        try:
            find_factory(path)
        except ImproperlyConfigured as error:
            problems.append(Error(str(error), id="pgjobs.E004"))
    return problems


def _problems_of_database(key: str, alias: str) -> list[CheckMessage]:
    if alias not in connections:
        return [
            Error(
                f"PGJOBS[{key!r}] is {alias!r}, which is not in DATABASES.",
                hint=f"Known: {', '.join(sorted(connections))}.",
                id="pgjobs.E002",
            )
        ]
    # Of the backend and not of its path: other packages' backends are built on Django's.
    connection = connections[alias]
    if connection.vendor != "postgresql":
        return [
            Error(
                f"django_pgjobs needs PostgreSQL, but DATABASES[{alias!r}] uses "
                f"{connection.settings_dict['ENGINE']}.",
                hint=f"Point PGJOBS[{key!r}] at an alias of django.db.backends.postgresql.",
                id="pgjobs.E003",
            )
        ]
    return []


def _problems_of_routers(alias: str) -> list[CheckMessage]:
    # The registry is ready when checks run, not when this module is imported.
    models = apps.get_app_config("django_pgjobs").get_models()
    if all(
        router.db_for_write(model) == alias and router.allow_migrate_model(alias, model)
        for model in models
    ):
        return []
    return [
        Warning(
            f"PGJOBS['DATABASE'] is {alias!r}, but the database routers send the models of "
            "django_pgjobs elsewhere, so that migrate makes their tables there and the admin "
            "writes there.",
            hint="Put 'django_pgjobs.routers.PgJobsRouter' first in DATABASE_ROUTERS.",
            id="pgjobs.W001",
        )
    ]
