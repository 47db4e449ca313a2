"""Print findings as tables."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

from .findings import Findings


def show(findings: Findings, *, elapsed: float) -> bool:
    """Print everything; return whether all checks hold."""
    head = ("merchant", "tenant", "orders", "lines", "turnover", "receipts")
    _table("Orders", head, findings.merchants)
    _table("Mail", ("what", "count"), findings.mail)
    _table("Jobs", ("job", "completed", "dead", "cancelled", "unfinished"), findings.jobs)
    _table(
        "Attempts that did not succeed", ("job", "outcome", "error", "count"), findings.attempts
    )
    _table("Dead jobs", ("id", "job", "attempts", "reason"), findings.dead)
    _table("Schedules", ("name", "cron", "last fired for", "jobs"), findings.schedules)
    print("\nChecks")
    for check in findings.checks:
        print(
            f"  {'ok  ' if check.holds else 'FAIL'}  {check.statement}. {check.problem}".rstrip()
        )
    failed = [check for check in findings.checks if not check.holds]
    verdict = f"{len(failed)} of {len(findings.checks)} checks failed" if failed else "All is well"
    print(f"\n{verdict}, after {elapsed:.0f} seconds.", flush=True)
    return not failed


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n{title}")
    cells = [list(head), *([str(value) for value in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    is_number = [all(isinstance(row[i], int) for row in rows) for i in range(len(head))]
    for number, row in enumerate(cells):
        padded = [
            f"{' ' * (width - _width(text))}{text}"
            if right
            else f"{text}{' ' * (width - _width(text))}"
            for text, width, right in zip(row, widths, is_number, strict=True)
        ]
        print(f"  {'  '.join(padded)}".rstrip())
        if number == 0:
            print(f"  {'  '.join('─' * width for width in widths)}")


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
