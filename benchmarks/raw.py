"""``raw``: what the protocol costs, compared with bare statements that do the same work.

The bare statements know no fences, no epochs, no caps and no pauses, and their claim index is
made for them. They claim rows as ours do, as many of each tenant in turn, but are told which
tenants have work: to find those, and what each is due, is part of what ours cost. They write the
same history. Slices of both alternate in one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from statistics import median
from time import perf_counter
from typing import Any, Final

import psycopg

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

_BARE_TABLE: Final = """
CREATE TABLE bare_active (LIKE jobs_active INCLUDING ALL) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
)
"""

_BARE_INDEX: Final = """
CREATE INDEX bare_active_claim ON bare_active
    (queue_name, tenant_id, priority DESC, scheduled_at, id)
WHERE status = 'pending'
"""

#: LIKE made one of the claim index too, which the bare claim has no use for.
_OUR_INDEX: Final = """
SELECT indexrelid::regclass::text
FROM pg_index
WHERE indrelid = 'bare_active'::regclass
    AND pg_get_indexdef(indexrelid) LIKE '%(epoch, queue_name, tenant_id, claim_order%'
"""

_BARE_CLAIM: Final = """
UPDATE bare_active
SET status = 'running', attempt = attempt + 1, claims = claims + 1, locked_by = 'bare',
    locked_at = now(), started_at = now(), lease_expires = now() + interval '5 minutes',
    fence_token = 1
WHERE ctid = ANY (ARRAY(
    SELECT job.ctid
    FROM unnest(%s::bigint[]) AS tenants (tenant_id)
    CROSS JOIN LATERAL (
        SELECT ctid
        FROM bare_active
        WHERE queue_name = 'default' AND tenant_id = tenants.tenant_id AND status = 'pending'
        ORDER BY priority DESC, scheduled_at, id
        LIMIT %s
        FOR UPDATE SKIP LOCKED
    ) AS job
))
RETURNING id, job_name, tenant_id, queue_name, priority, scheduled_at, fence_token, attempt,
    max_attempts, claims, payload::text, payload_version, meta::text
"""

_BARE_FINISH: Final = f"""
WITH finished AS (
    DELETE FROM bare_active WHERE id = ANY (%s) RETURNING {_COLUMNS}
)
INSERT INTO jobs_completed ({_COLUMNS}, completed_at, status)
SELECT {_COLUMNS}, now(), 'completed' FROM finished
RETURNING id
"""

Batch = Callable[[int, Progress], int]


def run(context: Context) -> None:
    """Measure, print and keep the ratios."""
    slices, jobs = context.pick(30, 8), context.pick(3_000, 2_000)
    with our_database(context.server_url, "raw"), connect("default", "benchmark") as connection:
        _make_bare_table(connection)
        for tenants in (1, 1_000):
            for batch in (100, 500):
                row = _compare(connection, tenants=tenants, batch=batch, slices=slices, jobs=jobs)
                context.report.add("raw", row)
    context.report.print_table(
        "raw",
        f"raw: claim and completion against bare statements, 1 client (goal: ratio ≥ {GOAL})",
        [
            "tenants", "batch", "bare jobs/s", "ours jobs/s", "ratio", "claim ratio",
            "finish ratio", "claim p50 ms", "claim p99 ms",
        ],
    )  # fmt: skip


def _make_bare_table(connection: psycopg.Connection[Any]) -> None:
    connection.execute(_BARE_TABLE)
    cursor = connection.execute(_OUR_INDEX)
    names = [name for (name,) in cursor.fetchall()]
    assert len(names) == 1, "The claim index has changed its columns."
    connection.execute(f"DROP INDEX {names[0]}")
    connection.execute(_BARE_INDEX)


def _compare(
    connection: psycopg.Connection[Any], *, tenants: int, batch: int, slices: int, jobs: int
) -> dict[str, Any]:
    connection.execute("TRUNCATE jobs_active, bare_active, jobs_completed")
    # A backlog that stays, so that no slice ends in short batches.
    _refill(connection, 5 * jobs, tenants)
    analyze(connection)
    connection.execute("VACUUM ANALYZE bare_active")
    claimer, turns = make_claimer("raw", seed=1), cycle(range(tenants))
    both: dict[str, Batch] = {
        "ours": lambda limit, to: consume(connection, claimer, limit, to),
        "bare": lambda limit, to: _consume_bare(connection, turns, limit, to),
    }
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    spent = {"ours": Progress(), "bare": Progress()}
    for number in range(slices):
        _refill(connection, jobs, tenants)
        for name in sorted(both, reverse=number % 2 == 0):
            # The first slice warms caches and plans.
            to = spent[name] if number else Progress()
            seconds[name].append(_slice(both[name], batch, jobs, to))
    return _row(tenants, batch, jobs, seconds, spent)


def _row(
    tenants: int,
    batch: int,
    jobs: int,
    seconds: dict[str, list[float]],
    spent: dict[str, Progress],
) -> dict[str, Any]:
    ours, bare = spent["ours"], spent["bare"]
    ratios = [b / o for b, o in zip(seconds["bare"][1:], seconds["ours"][1:], strict=True)]
    return {
        "tenants": tenants,
        "batch": batch,
        "bare jobs/s": jobs / median(seconds["bare"][1:]),
        "ours jobs/s": jobs / median(seconds["ours"][1:]),
        "ratio": median(ratios),
        "claim ratio": median(bare.claims) / median(ours.claims),
        "finish ratio": median(bare.finishes) / median(ours.finishes),
        "claim p50 ms": percentile(ours.claims, 50),
        "claim p99 ms": percentile(ours.claims, 99),
    }


def _refill(connection: psycopg.Connection[Any], count: int, tenants: int) -> None:
    fill(connection, count, tenants=tenants)
    connection.execute(
        "INSERT INTO bare_active (id, epoch, tenant_id, created_at, scheduled_at, status, "
        "job_name, queue_name, payload) SELECT id, epoch, tenant_id, created_at, scheduled_at, "
        "status, job_name, queue_name, payload FROM jobs_active ORDER BY id DESC LIMIT %s",
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
    connection: psycopg.Connection[Any], turns: Iterator[int], batch: int, to: Progress
) -> int:
    """Claim and complete ``batch`` jobs, of as many tenants as there are."""
    due = Counter(islice(turns, batch))
    began = perf_counter()
    rows = connection.execute(_BARE_CLAIM, [list(due), max(due.values())]).fetchall()
    claimed = perf_counter()
    ids = [row[0] for row in rows]
    written = connection.execute(_BARE_FINISH, [ids]).fetchall()
    assert len(written) == len(rows)
    to.claims.append((claimed - began) * 1000)
    to.finishes.append((perf_counter() - claimed) * 1000)
    return len(rows)
