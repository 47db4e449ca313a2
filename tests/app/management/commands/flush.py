"""Django's ``flush``, by which pytest-django ends each test that commits, without its waste.

That truncates every table, and makes all content types and permissions anew. A test has
written to few tables, and those two are as ``migrate`` left them: no test changes them.
"""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db import connections

KEPT = ["django_content_type", "auth_permission"]

#: Also a table whose rows were all deleted has pages, until it is truncated.
WRITTEN = """
    SELECT quote_ident(name) FROM unnest(%s::text[]) AS name
    WHERE pg_relation_size(quote_ident(name)) > 0
"""


class Command(flush.Command):
    """Empties the tables that have been written to."""

    def handle(self, **options: Any) -> None:
        """Truncate them, and whatever refers to them."""
        connection = connections[options["database"]]
        names = connection.introspection.django_table_names(only_existing=True)
        with connection.cursor() as cursor:
            cursor.execute(WRITTEN, [sorted(set(names) - set(KEPT))])
            if written := [name for (name,) in cursor]:
                cursor.execute(f"TRUNCATE {', '.join(written)} CASCADE")
