"""The queues to compare with, and how each is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Peer:
    """A queue.

    Attributes:
        name: of its package.
        adapter: module of ``adapters``.
        requirements: what to install.
        left: SQL that counts the jobs not yet finished.
        settings: how it is run, where that is not its default.
        variables: of the environment, that have it run so.
        jobs: enqueued in advance: enough to keep it busy for a second or longer.
    """

    name: str
    adapter: str
    requirements: tuple[str, ...]
    left: str
    settings: str
    variables: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 20_000

    @property
    def is_ours(self) -> bool:
        """True for django-pgjobs, which runs in the environment of the benchmarks."""
        return not self.requirements


_MANY: Final = 200_000


def _ours(name: str, settings: str, variables: Mapping[str, str]) -> Peer:
    return Peer(
        name=name,
        adapter="pgjobs",
        requirements=(),
        left="SELECT count(*) FROM jobs_active",
        settings=settings,
        variables=variables,
        jobs=_MANY,
    )


_FAST: Final = {"BENCHMARK_PGJOBS": '{"CLAIM_BATCH_SIZE": 500, "CONCURRENCY": 1}'}

#: By its defaults first.
OURS: Final = (
    _ours("django-pgjobs", "defaults, sync jobs in 10 threads", {}),
    _ours("django-pgjobs, fast", "sync jobs in 1 thread, batch 500", _FAST),
    _ours(
        "django-pgjobs, fast async",
        "async jobs, 100 at a time, batch 500",
        {**_FAST, "BENCHMARK_ASYNC": "1"},
    ),
)

PEERS: Final = (
    Peer(
        name="procrastinate",
        adapter="procrastinate",
        requirements=("procrastinate", "psycopg[binary]"),
        left="SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
        settings="async jobs, concurrency 30, pool of 20, LISTEN",
    ),
    Peer(
        name="pgqueuer",
        adapter="pgqueuer",
        requirements=("pgqueuer[asyncpg]",),
        left="SELECT count(*) FROM pgqueuer",
        settings="async jobs, batch 500, asyncpg, uvloop, LISTEN",
        jobs=_MANY,
    ),
    Peer(
        name="oban",
        adapter="oban",
        requirements=("oban",),
        left="SELECT count(*) FROM oban_jobs WHERE state <> 'completed'",
        settings="async jobs, limit 100, pool of 20, uvloop, LISTEN",
    ),
    Peer(
        name="chancy",
        adapter="chancy",
        requirements=("chancy", "psycopg[binary]"),
        left="SELECT count(*) FROM chancy_jobs WHERE state IN ('pending', 'running')",
        settings="async jobs, concurrency 100, eager polling, LISTEN",
    ),
    Peer(
        name="django-tasks-db",
        adapter="django_tasks",
        requirements=("django-tasks-db", "django>=6", "psycopg[binary]"),
        left="SELECT count(*) FROM django_tasks_database_dbtaskresult "
        "WHERE status IN ('READY', 'RUNNING')",
        settings="sync jobs, one at a time (it has no more), interval 0.1 s",
    ),
    Peer(
        name="django-ox",
        adapter="django_tasks",
        requirements=("django-ox", "django>=6", "psycopg[binary]"),
        left="SELECT count(*) FROM django_ox_oxtask WHERE status IN ('READY', 'RUNNING')",
        settings="sync jobs, 4 threads, interval 0.1 s",
    ),
    Peer(
        name="dj-queue",
        adapter="django_tasks",
        requirements=("dj-queue", "django>=6", "psycopg[binary]"),
        left="SELECT count(*) FROM dj_queue_jobs WHERE finished_at IS NULL",
        settings="sync jobs, 4 threads, interval 0.1 s, LISTEN",
    ),
)
