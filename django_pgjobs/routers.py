"""A database router for projects whose jobs are not in the default database."""

from __future__ import annotations

from typing import Any

from django.db.models import Model

from .conf import get_settings

_APP_LABEL = "django_pgjobs"


class PgJobsRouter:
    """Sends the models of django-pgjobs to ``PGJOBS["DATABASE"]``, and nothing else anywhere.

    Put it first in ``DATABASE_ROUTERS``, before a router that sends reads to a replica.
    Says nothing about other apps: their routers decide.
    """

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        """Return where to read ``model``: never on a replica, whose rows are older."""
        return get_settings().database if model._meta.app_label == _APP_LABEL else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str | None:
        """Return where to write ``model``."""
        return get_settings().database if model._meta.app_label == _APP_LABEL else None

    def allow_relation(self, first: Model, second: Model, **hints: Any) -> bool | None:
        """Say nothing: no model of django-pgjobs refers to a model of another app."""
        return None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Return whether to make the tables of ``app_label`` on ``db``."""
        return db == get_settings().database if app_label == _APP_LABEL else None
