"""The statement files, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import django_pgjobs
from django_pgjobs.sql import statement

PACKAGE = Path(django_pgjobs.__file__).parent
PLACEHOLDER = re.compile(r"%\((\w+)\)s(?:::(\w+(?:\[\])?))?")


@dataclass(frozen=True)
class StatementFile:
    """One file: its header, its body and what both say of its parameters."""

    path: Path

    @cached_property
    def name(self) -> str:
        return self.path.relative_to(PACKAGE / "sql").with_suffix("").as_posix()

    @cached_property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    @cached_property
    def header(self) -> list[str]:
        return [line for line in self.lines if line.startswith("--")]

    @cached_property
    def body(self) -> str:
        return "\n".join(self.lines[len(self.header) :])

    @cached_property
    def code(self) -> str:
        """Return the body without string literals."""
        return re.sub(r"'(?:[^']|'')*'", "''", self.body)

    @cached_property
    def documented(self) -> dict[str, str]:
        matches = (re.match(r"-- ([a-z_]+) {2,}(\w+(?:\[\])?)", line) for line in self.header)
        return {match[1]: match[2] for match in matches if match}

    @cached_property
    def placeholders(self) -> dict[str, set[str | None]]:
        found: dict[str, set[str | None]] = {}
        for name, cast in PLACEHOLDER.findall(self.body):
            found.setdefault(name, set()).add(cast or None)
        return found

    @cached_property
    def indexes(self) -> list[str]:
        """Return the indexes that the header promises."""
        lines = " ".join(line[2:].strip() for line in self.header)
        promise = re.search(r"\bIndex {3}([a-z_, ]+?)(?:\(|, in every|$)", lines)
        return (
            re.findall(r"\b(?:jobs_active|jobs_completed|job_attempts)_\w+", promise[1])
            if (promise)
            else []
        )

    @cached_property
    def numbered(self) -> tuple[str, list[str]]:
        """Return the statement for PREPARE: $1, $2 … and the parameters in that order."""
        names = list(self.placeholders)
        text = re.sub(
            r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement(self.name)
        )
        return text.replace("%%", "%"), names


FILES = [StatementFile(path) for path in sorted((PACKAGE / "sql").rglob("*.sql"))]
BY_NAME = {file.name: file for file in FILES}
