"""Where models read from."""

from __future__ import annotations

from typing import Any

from django.db import models

from ..conf import get_settings


class AliasManager(models.Manager[Any]):
    """Reads from the database named by ``PGJOBS["DATABASE"]``, never from a replica."""

    def get_queryset(self) -> models.QuerySet[Any]:
        queryset = super().get_queryset()
        return queryset if self._db else queryset.using(get_settings().database)
