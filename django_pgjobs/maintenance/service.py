"""What every maintenance service is: one step, without a loop, a thread or a sleep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a step did.

    Attributes:
        touched: ids or names of what it changed.
        is_full: it did as much as it was allowed to; there may be more.
        notes: what else is worth telling, by name.
    """

    touched: Sequence[Any] = ()
    is_full: bool = False
    notes: dict[str, Any] | None = None


class MaintenanceService(Protocol):
    """One duty of maintenance. Safe to run in several processes at once."""

    @property
    def name(self) -> str:
        """For logs and leadership."""
        ...

    @property
    def interval(self) -> timedelta:
        """Between two runs."""
        ...

    def run_once(self, connection: psycopg.Connection[Any], *, batch_size: int) -> Report:
        """Do one batch and say what it touched.

        Raises:
            psycopg.Error: the step failed; nothing is half done.
        """
        ...
