"""What goes wrong, by kind and not by job."""

from __future__ import annotations

from datetime import timedelta

from django.db import connections

from ..conf import get_settings
from ..store.observe import ErrorGroup, read_error_groups


def error_groups(
    *, within: timedelta = timedelta(days=1), job: str | None = None, limit: int = 50
) -> list[ErrorGroup]:
    """Return the errors of late, each kind once, the most frequent first.

    Errors are of one kind when they are of one class and went through the same functions: see
    ``definitions.errors.fingerprint_of``.

    Args:
        within: attempts that ended no longer ago than this.
        job: only of jobs of this name.
        limit: kinds at most.
    """
    connection = connections[get_settings().database]
    return read_error_groups(connection, within=within, job_name=job, limit=limit)
