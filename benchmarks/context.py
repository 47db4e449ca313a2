"""What every benchmark is given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from .report import Report

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One run.

    Attributes:
        server_url: of a database on the server to measure.
        is_quick: rough figures in about a tenth of the time.
        report: where results go.
        peer_python: the interpreter of other queues' environments, or None for the newest.
        peers: names of the queues to compare with.
    """

    server_url: str
    is_quick: bool
    report: Report
    peer_python: str | None
    peers: Collection[str]

    def pick(self, full: Value, quick: Value) -> Value:
        """Return ``quick`` in a quick run, else ``full``."""
        return quick if self.is_quick else full
