"""Give up handlers that nothing can end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ..definitions.registry import Registry
from ..store.finish import Ending
from .attempts import Attempt
from .classifying import overdue

logger = logging.getLogger("django_pgjobs.worker")


class Unkillable(Protocol):
    """A pool whose handlers can be asked to end, but not be ended."""

    size: int

    @property
    def stuck(self) -> int:
        """Handlers that were written off and have not ended."""

    def write_off(self, attempt: Attempt) -> str | None:
        """Let another take the place of ``attempt``; return where it is, None if it has ended."""


class WriteOffs:
    """Ends attempts whose handlers do not end, and says when too much is lost by that.

    Args:
        registry: of definitions.
        pools: by name.
        finish: takes the endings.
        on_stuck: called when more than half of a pool is of no use any more.
    """

    def __init__(
        self,
        registry: Registry,
        pools: Mapping[str, Unkillable],
        *,
        finish: Callable[[Attempt, Ending], None],
        on_stuck: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._pools = pools
        self._finish = finish
        self._on_stuck = on_stuck

    def note_overdue(self, attempt: Attempt, what: str = "went on after its timeout") -> None:
        """End an attempt as timed out, if its handler still runs.

        Args:
            attempt: that does not end.
            what: its handler did.
        """
        pool = self._pools[attempt.pool]
        stack = pool.write_off(attempt)
        if stack is None:
            return
        logger.error(
            "handler written off, it %s: id=%s name=%s stuck=%s",
            what,
            attempt.job.id,
            attempt.job.job_name,
            pool.stuck,
        )
        definition = self._registry.get(attempt.job.job_name)
        self._finish(attempt, overdue(definition, attempt, stack, what=what))
        if pool.stuck > pool.size // 2:
            self._on_stuck()

    def note_stuck_loop(self, attempt: Attempt | None) -> None:
        """Note that an event loop is of no use any more.

        Args:
            attempt: whose handler has blocked it, if that is known.
        """
        if attempt is not None:
            self.note_overdue(attempt, "blocked the event loop for a whole lease")
        self._on_stuck()
