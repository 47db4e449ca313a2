"""A migration operation that runs named SQL files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from django.db import migrations
from django.db.migrations.operations.base import Operation

_FOLDER = Path(__file__).parent / "sql"


class RunNamedSQL(migrations.RunSQL):
    """Run ``sql/<name>.up.sql`` forwards and ``sql/<name>.down.sql`` backwards.

    Args:
        name: of the two files, without their endings. They are frozen once released.
        state_operations: what the SQL means to Django's models.
    """

    def __init__(self, name: str, *, state_operations: Sequence[Operation]) -> None:
        super().__init__(
            sql=[(_FOLDER / f"{name}.up.sql").read_text(encoding="utf-8")],
            reverse_sql=[(_FOLDER / f"{name}.down.sql").read_text(encoding="utf-8")],
            state_operations=list(state_operations),
        )
