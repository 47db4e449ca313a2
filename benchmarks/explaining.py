"""What statements touch."""

from __future__ import annotations

from typing import Any, Final

import psycopg

from django_pgjobs.sql import statement
from django_pgjobs.store.claim import claim_jobs_of_tenant

from .consumer import LEASE

_OBJECTS: Final = {
    "heap MB": "jobs_active",
    "claim index MB": "jobs_active_claim",
    "running index MB": "jobs_active_running",
    "pkey MB": "jobs_active_pkey",
}

#: How often a statement runs before it is explained: the first ones mark dead index entries.
_WARM_UPS: Final = 2


def explain(
    connection: psycopg.Connection[Any], name: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Return the plan of a statement as it ran, and undo what it did.

    Args:
        connection: in autocommit.
        name: of the statement, such as ``claim/claim_jobs``.
        params: of the statement.
    """
    options = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
    with connection.transaction(force_rollback=True):
        cursor = psycopg.ClientCursor(connection).execute(options + statement(name), params)
        (((plan,),),) = cursor.fetchall()
    return dict(plan)


def explain_claim_and_completion(
    connection: psycopg.Connection[Any], batch: int
) -> dict[str, float]:
    """Return milliseconds and buffers of a claim and of its completion.

    Claims ``batch`` jobs for good.
    """
    claim = {
        "queue": "default",
        "tenant_id": 0,
        "worker_id": "explain",
        "limit": batch,
        "lease": LEASE,
        "now": None,
    }
    name = "claim/claim_jobs_of_tenant"
    for _ in range(_WARM_UPS):
        explain(connection, name, claim)
    claimed = explain(connection, name, claim)
    jobs = claim_jobs_of_tenant(connection, **claim).jobs
    finish = {
        "ids": [job.id for job in jobs],
        "fence_tokens": [job.fence_token for job in jobs],
        "results": [None] * len(jobs),
        "worker_id": "explain",
        "now": None,
    }
    finished = explain(connection, "finish/complete_jobs", finish)
    return {
        "claim ms": claimed["Execution Time"],
        "claim buffers": _buffers(claimed),
        "finish ms": finished["Execution Time"],
        "finish buffers": _buffers(finished),
    }


def sizes(connection: psycopg.Connection[Any]) -> dict[str, float]:
    """Return the megabytes of the hot table and its indexes."""
    found = {}
    for label, name in _OBJECTS.items():
        ((size,),) = connection.execute("SELECT pg_relation_size(%s)", [name]).fetchall()
        found[label] = size / 2**20
    return found


def _buffers(plan: dict[str, Any]) -> int:
    top = plan["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
