"""``raw``: what the protocol costs, compared with bare statements that do the same work.

The bare statements know no fences, no epochs, no caps, no weights and no pauses, and their claim
index is made for them. They claim as ours do, as many jobs of as many tenants in turn, and write
the same history. There are two: one finds the tenants that have work as ours does, by a probe of
the index for each, which is part of the work; the other is told who they are, and so shows what
finding them costs. Each has tables of its own with the same jobs: in a history that all share,
whoever has the highest ids writes at the right edge of the indexes, which is cheaper. Slices of
all alternate in one process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import Any, Final

import psycopg

from django_pgjobs.store.arrays import bigints
from django_pgjobs.store.claim import tenants_walked
from django_pgjobs.store.connecting import connect

from .consumer import Progress, consume, make_claimer
from .context import Context
from .database import our_database
from .report import percentile
from .rows import analyze, fill

GOAL: Final = 0.8

_COLUMNS: Final = """
    id, tenant_id, fence_token, created_at, scheduled_at, expires_at, started_at, locked_at,
    attempt, max_attempts, claims, generation, priority, payload_version, job_name, queue_name,
    locked_by, idempotency_key, group_key, payload, meta
"""

#: Of the tables of each of the bare statements, {name} is its name.
_TABLES: Final = """
CREATE TABLE {name}_active (LIKE jobs_active INCLUDING ALL) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE TABLE {name}_completed (LIKE jobs_completed INCLUDING ALL)
    PARTITION BY RANGE (completed_at);
CREATE TABLE {name}_completed_ever PARTITION OF {name}_completed
    FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE INDEX {name}_active_claim ON {name}_active
    (queue_name, tenant_id, priority DESC, scheduled_at, id)
WHERE status = 'pending'
"""

#: LIKE made one of the claim index too, which the bare claim has no use for.
_OUR_INDEX: Final = """
SELECT indexrelid::regclass::text
FROM pg_index
WHERE indrelid = '{name}_active'::regclass
    AND pg_get_indexdef(indexrelid) LIKE '%(epoch, queue_name, tenant_id, claim_order%'
"""

_UPDATE: Final = """
UPDATE {name}_active
SET status = 'running', attempt = attempt + 1, claims = claims + 1, locked_by = 'bare',
    locked_at = now(), started_at = now(), lease_expires = now() + interval '5 minutes',
    fence_token = 1
WHERE ctid = ANY (ARRAY(
    SELECT job.ctid
    FROM tenants
    CROSS JOIN LATERAL (
        SELECT ctid
        FROM {name}_active
        WHERE queue_name = 'default' AND tenant_id = tenants.tenant_id AND status = 'pending'
        ORDER BY priority DESC, scheduled_at, id
        LIMIT %(each)s
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT %(limit)s
))
RETURNING id, job_name, tenant_id, queue_name, priority, fence_token, attempt, max_attempts,
    claims, payload::text, payload_version, meta::text
"""

_TOLD: Final = (
    """
WITH tenants AS (SELECT tenant_id FROM unnest(%(tenants)s::bigint[]) AS tenants (tenant_id))
"""
    + _UPDATE
)

_WALKING: Final = (
    """
WITH RECURSIVE walk AS (
    (
        SELECT tenant_id
        FROM {name}_active
        WHERE queue_name = 'default' AND tenant_id > %(after)s AND status = 'pending'
        ORDER BY tenant_id
        LIMIT 1
    )
    UNION ALL
    SELECT next.tenant_id
    FROM walk
    CROSS JOIN LATERAL (
        SELECT tenant_id
        FROM {name}_active
        WHERE queue_name = 'default' AND tenant_id > walk.tenant_id AND status = 'pending'
        ORDER BY tenant_id
        LIMIT 1
    ) AS next
),
tenants AS (SELECT tenant_id FROM walk LIMIT %(walked)s)
"""
    + _UPDATE
)

_FINISH: Final = f"""
WITH finished AS (
    DELETE FROM {{name}}_active WHERE id = ANY (%s::bigint[]) RETURNING {_COLUMNS}
)
INSERT INTO {{name}}_completed ({_COLUMNS}, completed_at, status)
SELECT {_COLUMNS}, now(), 'completed' FROM finished
RETURNING id
"""

#: What a new row has.
_PENDING: Final = """
    id, epoch, tenant_id, created_at, scheduled_at, status, job_name, queue_name, payload
"""

#: Where a claimed row has its tenant.
_TENANT: Final = 2

Batch = Callable[[int, Progress], int]


def run(context: Context) -> None:
    """Measure, print and keep the ratios."""
    slices, jobs = context.pick(30, 8), context.pick(3_000, 2_000)
    with our_database(context.server_url, "raw"), connect("default", "benchmark") as connection:
        for bare in _BARE:
            _make_tables(connection, bare.name)
        for tenants in (1, 1_000):
            for batch in (100, 200, 500):
                row = _compare(connection, tenants=tenants, batch=batch, slices=slices, jobs=jobs)
                context.report.add("raw", row)
    context.report.print_table(
        "raw",
        f"raw: claim and completion against bare statements, 1 client (goal: ratio ≥ {GOAL})",
        [
            "tenants", "batch", "bare jobs/s", "ours jobs/s", "ratio", "claim ratio",
            "finish ratio", "ratio if told", "claim p50 ms", "claim p99 ms",
        ],
    )  # fmt: skip


class Walking:
    """Claims of each tenant in turn, which it finds.

    Args:
        tenants: how many there are: so many jobs of each as it takes to fill a claim.
    """

    name: Final = "walking"

    def __init__(self, tenants: int) -> None:
        self._tenants = tenants
        self._after = -1
        self._claim = _WALKING.format(name=self.name)

    def __call__(self, connection: psycopg.Connection[Any], limit: int) -> list[tuple[Any, ...]]:
        """Claim up to ``limit`` jobs."""
        walked = tenants_walked(limit)
        each = -(-limit // min(walked, self._tenants))
        params = {"after": self._after, "walked": walked, "each": each, "limit": limit}
        rows = connection.execute(self._claim, params).fetchall()
        found = {row[_TENANT] for row in rows}
        was_at_end = len(found) < walked
        self._after = -1 if was_at_end else max(found)
        return rows or self(connection, limit)


class Told:
    """Claims of each tenant in turn, and is told who they are.

    Args:
        tenants: how many there are.
    """

    name: Final = "told"

    def __init__(self, tenants: int) -> None:
        self._tenants = tenants
        self._turns = cycle(range(tenants))
        self._claim = _TOLD.format(name=self.name)

    def __call__(self, connection: psycopg.Connection[Any], limit: int) -> list[tuple[Any, ...]]:
        """Claim up to ``limit`` jobs."""
        due = list(islice(self._turns, min(tenants_walked(limit), self._tenants)))
        params = {"tenants": due, "limit": limit, "each": -(-limit // len(due))}
        return connection.execute(self._claim, params).fetchall()


_BARE: Final = (Walking, Told)


def _make_tables(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(_TABLES.format(name=name))
    cursor = connection.execute(_OUR_INDEX.format(name=name))
    names = [index for (index,) in cursor.fetchall()]
    assert len(names) == 1, "The claim index has changed its columns."
    connection.execute(f"DROP INDEX {names[0]}")


def _compare(
    connection: psycopg.Connection[Any], *, tenants: int, batch: int, slices: int, jobs: int
) -> dict[str, Any]:
    for name in ("jobs", *(bare.name for bare in _BARE)):
        connection.execute(f"TRUNCATE {name}_active, {name}_completed")
    # A backlog that stays, so that no slice ends in short batches.
    _refill(connection, 5 * jobs, tenants)
    analyze(connection)
    for bare in _BARE:
        connection.execute(f"VACUUM ANALYZE {bare.name}_active")
    claimer = make_claimer("raw", seed=1)
    ways: dict[str, Batch] = {"ours": partial(consume, connection, claimer)}
    ways |= {bare.name: partial(_consume_bare, connection, bare(tenants)) for bare in _BARE}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    spent = {name: Progress() for name in ways}
    order = deque(ways)
    for number in range(slices):
        _refill(connection, jobs, tenants)
        order.rotate()
        for name in order:
            # The first slice warms caches and plans.
            to = spent[name] if number else Progress()
            seconds[name].append(_slice(ways[name], batch, jobs, to))
    return _row(tenants, batch, jobs, seconds, spent)


def _row(
    tenants: int,
    batch: int,
    jobs: int,
    seconds: dict[str, list[float]],
    spent: dict[str, Progress],
) -> dict[str, Any]:
    def ratio(name: str) -> float:
        pairs = zip(seconds[name][1:], seconds["ours"][1:], strict=True)
        return median(bare / ours for bare, ours in pairs)

    ours, bare = spent["ours"], spent["walking"]
    return {
        "tenants": tenants,
        "batch": batch,
        "bare jobs/s": jobs / median(seconds["walking"][1:]),
        "ours jobs/s": jobs / median(seconds["ours"][1:]),
        "ratio": ratio("walking"),
        "claim ratio": median(bare.claims) / median(ours.claims),
        "finish ratio": median(bare.finishes) / median(ours.finishes),
        "ratio if told": ratio("told"),
        "claim p50 ms": percentile(ours.claims, 50),
        "claim p99 ms": percentile(ours.claims, 99),
    }


def _refill(connection: psycopg.Connection[Any], count: int, tenants: int) -> None:
    """Add pending jobs: the same ``count`` for us and for each of the bare statements."""
    fill(connection, count, tenants=tenants)
    for bare in _BARE:
        connection.execute(
            f"INSERT INTO {bare.name}_active ({_PENDING}) SELECT {_PENDING} "
            "FROM (SELECT * FROM jobs_active ORDER BY id DESC LIMIT %s) AS newest ORDER BY id",
            [count],
        )


def _slice(consume_batch: Batch, batch: int, jobs: int, to: Progress) -> float:
    began, left = perf_counter(), jobs
    while left > 0:
        taken = consume_batch(min(batch, left), to)
        assert taken, "The backlog is empty."
        left -= taken
    return perf_counter() - began


def _consume_bare(
    connection: psycopg.Connection[Any], claim: Walking | Told, batch: int, to: Progress
) -> int:
    """Claim and complete ``batch`` jobs."""
    finish = _FINISH.format(name=claim.name)
    began = perf_counter()
    rows = claim(connection, batch)
    claimed = perf_counter()
    ids = bigints(row[0] for row in rows)
    written = connection.execute(finish, [ids]).fetchall()
    assert len(written) == len(rows)
    to.claims.append((claimed - began) * 1000)
    to.finishes.append((perf_counter() - claimed) * 1000)
    return len(rows)
