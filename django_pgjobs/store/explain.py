"""Ask the planner how it would run the statements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg

from ..sql import statement, statement_names

__all__ = ["explain", "statement_names"]

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def explain(
    connection: psycopg.Connection[Any], name: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the plan of a statement, which is not executed.

    Args:
        connection: to the tables.
        name: of the statement.
        values: likely ones of its parameters; those that are missing are null.
    """
    text = statement(name)
    wanted = {parameter: values.get(parameter) for parameter in _PLACEHOLDER.findall(text)}
    # Bound on the client's side: EXPLAIN takes no parameters.
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", wanted)
    ((plans,),) = cursor.fetchall()
    plan: dict[str, Any] = plans[0]["Plan"]
    return plan
