"""The statements: one file each, in folders by what they are for.

A file holds a header of comment lines and exactly one statement. The header says
what the statement promises; ``tests/sql/test_contract.py`` checks its form.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def statement_names() -> list[str]:
    """Return the names of all statements, such as ``claim/claim_jobs``."""
    root = files(__name__)
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.sql')}"
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    )


def read_all() -> None:
    """Read every statement, for a process that lives long.

    The first time that one is needed, the files may be those of another release, or gone; or no
    descriptor may be left to open one.
    """
    for name in statement_names():
        statement(name)


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
