"""Whether the planner reads no more than it needs: the check that the tests make, for a site.

No statement of the protocol should read or sort a whole table of ours. On a site that may
still happen: with planner settings of its own, or an index that somebody dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg

from ..store.explain import explain, statement_names
from ..store.observe import read_table_sizes

Plan = dict[str, Any]

#: Up to this many pages of a table a scan of all of it is the best plan. Not counted in rows: a
#: plan says how many a scan returns, which may be few of very many.
SMALL_PAGES: Final = 100

#: Below this many rows by the planner's estimate a sort is no burden.
SMALL_SORT: Final = 1_000

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
    large = {
        table.name: table.pages
        for table in read_table_sizes(connection)
        # DEFAULT partitions have no rows in health, and are only asked for some.
        if table.pages > SMALL_PAGES and not table.name.endswith("_default")
    }
    return [
        Verdict(name, list(dict.fromkeys(_problems_of(explain(connection, name, values), large))))
        for name in statement_names()
    ]


def _problems_of(plan: Plan, large: Mapping[str, int]) -> Iterator[str]:
    """Yield what is wrong with a plan, given the pages of large tables."""
    for node in nodes(plan):
        table = node.get("Relation Name", "")
        if node["Node Type"] == "Seq Scan" and table in large:
            yield f"It reads the whole table {table}, {large[table]:,} pages."
        if node["Node Type"] in {"Sort", "Incremental Sort"} and node["Plan Rows"] > SMALL_SORT:
            for fed in feeding(node):
                name = fed.get("Relation Name", "")
                if name in large and not _is_by_id(fed):
                    yield f"It sorts about {node['Plan Rows']:,} rows of {name}."


def _is_by_id(scan: Plan) -> bool:
    """Say whether a scan finds rows by their ids: no more than were asked for.

    Without statistics the planner expects many of each id.
    """
    indexes = (node.get("Index Name", "") for node in (scan, *scan.get("Plans", ())))
    return any(index.endswith("_pkey") for index in indexes)


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
