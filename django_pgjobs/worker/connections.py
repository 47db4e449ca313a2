"""How many connections a worker may need. See docs/how-to/run-in-production.md."""

from __future__ import annotations

from ..conf import PgJobsSettings
from ..definitions.pools import ASYNC, PROCESSES, THREADS
from ..definitions.registry import Registry
from .routing import pools_wanted
from .worker import WorkerOptions

#: Claim, finish, heartbeat.
_OWN = 3


def connections_needed(options: WorkerOptions, registry: Registry, *, maintains: bool) -> int:
    """Return how many connections a worker has at most.

    Its own are always there; each place where a handler can run may have one of Django, if
    handlers use one database.

    Args:
        options: of the worker.
        registry: the definitions it runs.
        maintains: maintenance runs in its process.
    """
    places = {
        THREADS: options.sizes[THREADS],
        PROCESSES: options.sizes[PROCESSES],
        ASYNC: options.settings.async_threads,
    }
    wanted = pools_wanted(registry, options.pool)
    return _own(options.settings) + maintains + sum(places[pool] for pool in wanted)


def _own(settings: PgJobsSettings) -> int:
    return _OWN + (1 if settings.listen else 0)
