"""The statements: one file each, in folders by what they are for.

A file holds a header of comment lines and exactly one statement. The header says
what the statement promises; ``tests/sql/test_contract.py`` checks its form.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the statement ``name``, such as ``claim/claim_jobs``.

    Its header is dropped and its name put in front as a comment, so that it can be
    recognised in ``pg_stat_activity``.

    Raises:
        FileNotFoundError: there is no such statement.
    """
    lines = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8").splitlines()
    body = [line for line in lines if not line.startswith("--")]
    return f"/* pgjobs {name.rpartition('/')[2]} */ " + "\n".join(body).strip()
