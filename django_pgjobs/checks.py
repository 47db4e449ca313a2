"""System checks, ``pgjobs.E001`` and on. Listed in docs/reference/checks.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from .conf import get_settings


@register()
def check_settings(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Report what is wrong with PGJOBS: E001 its keys and values, E002 and E003 its database."""
    try:
        alias = get_settings().database
    except ImproperlyConfigured as error:
        return [Error(str(error), id="pgjobs.E001")]
    database = settings.DATABASES.get(alias)
    if database is None:
        return [
            Error(
                f"PGJOBS['DATABASE'] is {alias!r}, which is not in DATABASES.",
                hint=f"Known: {', '.join(sorted(settings.DATABASES))}.",
                id="pgjobs.E002",
            )
        ]
    if "postgresql" not in database["ENGINE"] and "postgis" not in database["ENGINE"]:
        return [
            Error(
                f"django_pgjobs needs PostgreSQL, but DATABASES[{alias!r}] uses "
                f"{database['ENGINE']}.",
                hint="Point PGJOBS['DATABASE'] at an alias of django.db.backends.postgresql.",
                id="pgjobs.E003",
            )
        ]
    return []
