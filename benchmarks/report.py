"""Tables for people, JSON for machines."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import cpu_count, getloadavg
from pathlib import Path
from statistics import quantiles
from typing import Any

Cell = str | int | float | None


@dataclass(slots=True)
class Report:
    """The results of one run.

    Attributes:
        results: the tables of each benchmark, by its name, as lists of rows.
    """

    server: str = ""
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, benchmark: str, row: dict[str, Any]) -> None:
        """Keep one row of a benchmark."""
        self.results.setdefault(benchmark, []).append(row)

    def print_table(self, benchmark: str, title: str, columns: Sequence[str]) -> None:
        """Print the rows of a benchmark.

        Args:
            benchmark: its name.
            title: a line above the table.
            columns: the keys to show, in this order.
        """
        rows = [[_shown(row.get(name)) for name in columns] for row in self.results[benchmark]]
        print_rows(title, columns, rows)

    def write(self, path: Path) -> None:
        """Write everything as JSON, with what it was measured on."""
        path.write_text(json.dumps(self.machine() | {"results": self.results}, indent=2) + "\n")

    def machine(self) -> dict[str, Any]:
        """Return what the figures were measured on."""
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "postgresql": self.server,
            "cores": cpu_count(),
            "load": [round(load, 1) for load in getloadavg()],
        }


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    print(f"\n{title}")
    for row in [columns, ["-" * width for width in widths], *rows]:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        print("  " + "  ".join(cells).rstrip(), flush=True)


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile, or None of too few values."""
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _shown(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value
