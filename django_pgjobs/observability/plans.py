"""Whether the planner reads no more than it needs: the check that the tests make, for a site.

No statement of the protocol should read or sort a whole table of ours. On a site that may
still happen: with planner settings of its own, or an index that somebody dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.explain import explain, statement_names

Plan = dict[str, Any]

#: Below this many rows by the planner's estimate a scan of a whole table is the best plan.
SMALL: Final = 1_000

_TABLES: Final = ("jobs_active", "jobs_completed", "job_attempts")

#: Likely values of the statements' parameters: batches of a hundred.
SAMPLE: Final[dict[str, Any]] = {
    "ids": list(range(1, 101)),
    "fence_tokens": list(range(1, 101)),
    "worker_id": "worker",
    "queue": "default",
    "limit": 100,
    "walked": 50,
    "count": 100,
    "tenant_id": 0,
    "after_tenant": 0,
    "carry": 0,
    "mean_weight": 10.0,
    "offset": 0.5,
    "default_weight": 10,
    "evenly": False,
    "breaker": "bank",
    "lease": timedelta(minutes=5),
    "grace": timedelta(minutes=5),
    "silence": timedelta(minutes=10),
    "after_id": 1,
    "until_id": 2**62,
    "status": "dead",
    "within": timedelta(days=1),
    "patience": timedelta(minutes=1),
    "retention": timedelta(days=90),
    "schedule_id": 1,
    "epoch": 1,
    "from_epoch": 1,
    "generation": 1,
    "from_generation": 1,
    "floor": 1,
    "table_name": "jobs_completed",
    "tenant_ids": [0] * 100,
    "job_names": ["job"] * 100,
    "idempotency_keys": [f"key {number}" for number in range(100)],
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the planner makes of one statement.

    Attributes:
        name: of the statement.
        problems: sentences; none in health.
    """

    name: str
    problems: list[str]


def judge_statements(connection: psycopg.Connection[Any], *, queue: str) -> list[Verdict]:
    """Return a verdict on each statement, as of now: statistics and settings count."""
    values = SAMPLE | {"queue": queue}
    return [
        Verdict(name, list(problems_of(explain(connection, name, values))))
        for name in statement_names()
    ]


def problems_of(plan: Plan) -> Iterator[str]:
    """Yield what is wrong with a plan."""
    for node in nodes(plan):
        table = node.get("Relation Name", "")
        if node["Node Type"] == "Seq Scan" and _is_ours(table) and node["Plan Rows"] > SMALL:
            yield f"It reads the whole table {table}, about {node['Plan Rows']:,} rows."
        if node["Node Type"] in {"Sort", "Incremental Sort"} and node["Plan Rows"] > SMALL:
            scanned = [fed["Relation Name"] for fed in feeding(node) if "Relation Name" in fed]
            for name in filter(_is_ours, scanned):
                yield f"It sorts about {node['Plan Rows']:,} rows of {name}."


def nodes(plan: Plan) -> Iterator[Plan]:
    """Yield every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def feeding(plan: Plan) -> Iterator[Plan]:
    """Yield the nodes whose rows reach ``plan`` without a LIMIT in between."""
    for child in plan.get("Plans", ()):
        is_aside = child["Parent Relationship"] in {"InitPlan", "SubPlan"}
        if not is_aside and child["Node Type"] != "Limit":
            yield child
            yield from feeding(child)


def _is_ours(table: str) -> bool:
    # DEFAULT partitions are empty in health, and guessed to be larger while never analyzed.
    return table.startswith(_TABLES) and not table.endswith("_default")
