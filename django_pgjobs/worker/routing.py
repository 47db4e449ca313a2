"""Which pool runs which job."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..definitions.definition import JobDefinition
from ..definitions.pools import ASYNC, PROCESSES, THREADS
from ..definitions.registry import Registry
from .attempts import SUSPECT_AFTER


def pools_wanted(registry: Registry, default: str) -> set[str]:
    """Return the pools that suit the definitions, and threads, for whatever else may come.

    Args:
        registry: of definitions.
        default: pool of handlers defined with ``def`` that declare none.
    """
    return {THREADS} | {_suits(definition, default) for definition in registry}


class Routing:
    """Chooses a pool for each job: what it declares, or what suits its function.

    Args:
        registry: of definitions.
        default: pool of handlers defined with ``def`` that declare none.
        pools: those that the worker has. What belongs to another one runs in threads.
    """

    def __init__(self, registry: Registry, default: str, pools: Collection[str]) -> None:
        self._registry = registry
        self._default = default
        self._pools = pools

    def pool_of(self, job_name: str, *, losses: int = 0) -> str:
        """Return the name of the pool of a job. Of an unknown one, threads.

        A suspect runs in a process of its own, whatever it declares: if it kills that one too, it
        harms no other.

        Args:
            job_name: of its definition.
            losses: processes that were lost with the job in flight.
        """
        if losses >= SUSPECT_AFTER and PROCESSES in self._pools:
            return PROCESSES
        definition = self._registry.find(job_name)
        return THREADS if definition is None else self._choose(definition)

    def pools_of_queues(self, default_queue: str) -> Iterator[tuple[str, str]]:
        """Yield each declared queue with each pool that its declared jobs go to."""
        for definition in self._registry:
            yield definition.queue or default_queue, self._choose(definition)

    def _choose(self, definition: JobDefinition) -> str:
        wanted = _suits(definition, self._default)
        return wanted if wanted in self._pools else THREADS


def _suits(definition: JobDefinition, default: str) -> str:
    return definition.pool or (ASYNC if definition.is_async else default)
