"""The state of a site for Prometheus. Needs the extra ``prometheus``.

A collector that reads the database when it is scraped, and counts nothing itself: every
process of a site gives the same figures, so only one needs to be scraped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

import psycopg

from ..conf import PgJobsSettings, get_settings
from ..store.breakers import BreakerState
from ..store.connecting import PATIENCE, SessionOptions, connect
from ..store.observe import QueueState
from .health import Health, read_health

try:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "django_pgjobs.observability.metrics needs prometheus-client, which is not installed. "
        'Install the extra: python -m pip install "django-pgjobs[prometheus]"',
        name=error.name,
    ) from error

logger: Final = logging.getLogger("django_pgjobs.metrics")

Sample = tuple[str, tuple[str, ...], float]

#: A statement may take no longer: Prometheus gives up a scrape after ten seconds.
_STATEMENT_TIMEOUT: Final = timedelta(seconds=5)

_STATES: Final = ("closed", "open", "half_open")

_UP: Final = "pgjobs_up"

#: Of each metric: what it says, and its labels.
_METRICS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    _UP: ("Whether the database answered. If not, there is no other metric.", ()),
    "pgjobs_problems": ("What pgjobs_health finds wrong.", ()),
    "pgjobs_queue_pending_jobs": ("Jobs that may be claimed, counted to 10,000.", ("queue",)),
    "pgjobs_queue_running_jobs": ("Jobs that a worker holds.", ("queue",)),
    "pgjobs_queue_oldest_pending_seconds": (
        "Time since the oldest pending job was due; 0 if none is pending.",
        ("queue",),
    ),
    "pgjobs_queue_paused": ("Whether nothing is claimed from the queue.", ("queue",)),
    "pgjobs_workers": ("Workers heard of within a lease.", ()),
    "pgjobs_maintenance_alive": ("Whether a maintenance process leads.", ()),
    "pgjobs_expired_leases": ("Running jobs whose lease is over and not yet reaped.", ()),
    "pgjobs_overdue_jobs": ("Waiting jobs that are due and not staged, counted to 1,000.", ()),
    "pgjobs_late_schedules": ("Schedules that did not or cannot fire, counted to 10.", ()),
    "pgjobs_default_partition_rows": (
        "Rows of history without a partition of their day, counted to 1,000.",
        (),
    ),
    "pgjobs_breaker_state": ("1 for the state that the breaker is in.", ("breaker", "state")),
    "pgjobs_breaker_info": ("Why the breaker is in its state.", ("breaker", "reason")),
    "pgjobs_breaker_held_jobs": ("Jobs that the breaker holds, counted to 10,000.", ("breaker",)),
}


def register(registry: CollectorRegistry = REGISTRY) -> HealthCollector:
    """Let scrapes of a registry read how the site stands. The database is not asked yet.

    Args:
        registry: of ``prometheus_client``; its global one unless given.

    Returns:
        The collector, for ``registry.unregister``.

    Raises:
        ValueError: the registry has these metrics already.
    """
    collector = HealthCollector()
    registry.register(collector)
    return collector


class HealthCollector(Collector):
    """Reads the database once for each scrape, over a connection of its own.

    A database that does not answer is told by ``pgjobs_up``, so that it takes no other
    collector of the registry down.
    """

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics without samples, for the registry to know their names."""
        return _families(())

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics as of now."""
        settings = get_settings()
        try:
            with connect(settings.database, "pgjobs metrics", _options(settings)) as connection:
                health = read_health(connection, lease=settings.lease_duration)
        except psycopg.Error as error:
            logger.warning("metrics not read: error=%s", error)
            return _families([(_UP, (), 0)])
        return _families(samples_of(health))


def samples_of(health: Health) -> Iterator[Sample]:
    """Yield name, labels and value of all that is known of a site."""
    vitals = health.vitals
    yield _UP, (), 1
    yield "pgjobs_problems", (), len(health.problems)
    yield "pgjobs_workers", (), vitals.workers
    yield "pgjobs_maintenance_alive", (), vitals.leader_id is not None
    yield "pgjobs_expired_leases", (), vitals.expired_leases
    yield "pgjobs_overdue_jobs", (), vitals.overdue
    yield "pgjobs_late_schedules", (), len(health.late)
    yield "pgjobs_default_partition_rows", (), vitals.strays
    for queue in health.queues:
        yield from _samples_of_queue(queue)
    for breaker in health.breakers:
        yield from _samples_of_breaker(breaker, health.held.get(breaker.name, 0))


def _samples_of_queue(queue: QueueState) -> Iterator[Sample]:
    name = (queue.queue_name,)
    age = queue.oldest_pending_age or timedelta(0)
    yield "pgjobs_queue_pending_jobs", name, queue.pending
    yield "pgjobs_queue_running_jobs", name, queue.running
    yield "pgjobs_queue_oldest_pending_seconds", name, age.total_seconds()
    yield "pgjobs_queue_paused", name, queue.is_paused


def _samples_of_breaker(breaker: BreakerState, held: int) -> Iterator[Sample]:
    for state in _STATES:
        yield "pgjobs_breaker_state", (breaker.name, state), breaker.state == state
    # Apart from the state: a new reason would be a new series of it.
    yield "pgjobs_breaker_info", (breaker.name, breaker.reason), 1
    yield "pgjobs_breaker_held_jobs", (breaker.name,), held


def _families(samples: Iterable[Sample]) -> list[GaugeMetricFamily]:
    families = {
        name: GaugeMetricFamily(name, text, labels=labels)
        for name, (text, labels) in _METRICS.items()
    }
    for name, labels, value in samples:
        families[name].add_metric(labels, float(value))
    return list(families.values())


def _options(settings: PgJobsSettings) -> SessionOptions:
    timeout = min(settings.statement_timeout, _STATEMENT_TIMEOUT)
    return SessionOptions(
        keeps_state=settings.keeps_state, statement_timeout=timeout, patience=timeout * PATIENCE
    )
