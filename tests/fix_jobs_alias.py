"""A second database, for projects whose jobs are not in the default one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from psycopg import conninfo as conninfos

from .fix_database import database


@pytest.fixture
def jobs_alias(
    tables: None,
    conninfo: str,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    django_db_blocker: Any,
) -> Iterator[str]:
    """Return an alias that is not ``default``, has the tables, and is that of the jobs."""
    # Django forbids a test the aliases that it has not asked for, and cannot ask for this one.
    with database(conninfo, "jobs") as address, django_db_blocker.unblock():
        name = conninfos.conninfo_to_dict(address)["dbname"]
        configured = {**connections["default"].settings_dict, "NAME": name}
        monkeypatch.setitem(connections.settings, "jobs", configured)
        settings.PGJOBS = {"DATABASE": "jobs"}
        yield "jobs"
        connections["jobs"].close()
        del connections["jobs"]
