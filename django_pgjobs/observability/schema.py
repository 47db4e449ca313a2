"""Whether the tables are as this code expects them."""

from __future__ import annotations

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

_APP = "django_pgjobs"


def missing_migrations(alias: str) -> list[str]:
    """Return the names of our migrations that have not been applied, in order.

    Raises:
        django.db.OperationalError: the server cannot be reached.
    """
    connection = connections[alias]
    try:
        executor = MigrationExecutor(connection)
        ours = [node for node in executor.loader.graph.leaf_nodes() if node[0] == _APP]
        plan = executor.migration_plan(ours)
        return [migration.name for migration, _ in plan if migration.app_label == _APP]
    finally:
        connection.close()
