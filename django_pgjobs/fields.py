"""Fields of the types that the migrations make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.checks import CheckMessage
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from .states import JobStatus

if TYPE_CHECKING:
    # Generic for the type checker only.
    TextField = models.CharField[str, str]
    ListField = models.Field[list[str], list[str]]
else:
    TextField = models.CharField
    ListField = models.Field


class JobStatusField(TextField):
    """A field of the enum ``job_status``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 9)
        kwargs.setdefault("choices", JobStatus.choices)
        super().__init__(*args, **kwargs)

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "job_status"

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("choices", None)
        kwargs.pop("max_length", None)
        return name, path, args, kwargs


class TextListField(ListField):
    """A field of the type ``text[]``, as a list of strings.

    Django's own ArrayField needs django.contrib.postgres in INSTALLED_APPS.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Return the type of the column."""
        return "text[]"


class ComputedField(models.GeneratedField):
    """A generated column that the migrations make.

    Django's own check of such a field connects to the server to ask what it supports, so
    that ``manage.py check`` would fail where there is none.
    """

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return no problems: the column is made by our own SQL."""
        return []
