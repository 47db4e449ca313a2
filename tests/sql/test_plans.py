"""No statement of the protocol reads or sorts a whole table, whatever the planner knows.

Both states of statistics count: a table that was filled a minute ago has none. Both kinds of
plan count: psycopg prepares what it has executed five times, and the server may then keep
one plan for all values.
"""

from __future__ import annotations

import re
from datetime import timedelta

import psycopg
import pytest

from django_pgjobs.observability.plans import judge_statements, nodes
from django_pgjobs.sql import statement
from django_pgjobs.store.connecting import connect as connect_worker
from tests.fix_database import database

from .plans import (
    custom_plan,
    fill,
    fill_rows,
    generic_plan,
    partitions,
    sorts_of_tables,
    table_scans,
    used_indexes,
)
from .statements import BY_NAME, FILES

pytestmark = pytest.mark.slow

PLANS = {"custom": custom_plan, "generic": generic_plan}

# What is only observed may cost more. A bounded count stands in the way of an enqueue.
PROTOCOL = [
    file
    for file in FILES
    if re.search(r"\b(FROM|UPDATE|INTO|JOIN) jobs_(active|completed)\b", file.body)
    and (file.path.parent.name != "observe" or file.path.stem == "count_pending")
]

BY_PLACE = [file for file in PROTOCOL if "jobs_active.ctid = ANY" in file.body]


@pytest.fixture(scope="module")
def filled(conninfo):
    """Return a connection to a database with much work and more history."""
    with (
        database(conninfo, "plans") as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        fill(connection, pending=100_000, scheduled=100_000, running=2_000, history=200_000)
        yield connection


@pytest.fixture(scope="module", params=["never analyzed", "analyzed"])
def planning(request, filled):
    """Return the connection with one state of the statistics, in this order."""
    if request.param == "analyzed":
        filled.execute("ANALYZE")
    return filled


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("file", PROTOCOL, ids=lambda file: file.name)
def test_a_statement_reads_what_it_needs_by_its_index(transactional_db, planning, file, kind):
    plan = PLANS[kind](planning, file)

    for table in ("jobs_active", *partitions(planning)):
        # DEFAULT is empty in health, and a scan of nothing is the best plan.
        if not table.endswith("_default"):
            assert table_scans(plan, table) == []
            assert sorts_of_tables(plan, table) == []
    assert set(file.indexes) <= used_indexes(planning, plan)


@pytest.mark.parametrize("file", PROTOCOL, ids=lambda file: file.name)
def test_a_plan_made_while_the_queue_was_empty_is_good_when_it_fills(tables, file):
    with connect_worker("default", "pgjobs test") as connection:
        connection.execute("VACUUM ANALYZE jobs_active")

        plan = generic_plan(connection, file)

    assert table_scans(plan, "jobs_active") == []
    assert sorts_of_tables(plan, "jobs_active") == []


def test_the_check_for_a_site_finds_nothing_to_complain_of(transactional_db, planning):
    verdicts = judge_statements(planning, queue="default")

    assert [verdict for verdict in verdicts if verdict.problems] == []


# What a table was when it was analyzed last, which may be far from what it is.
ONCE = {
    "nothing": {"pending": 0, "scheduled": 0, "running": 0},
    "waiting": {"pending": 0, "scheduled": 40_000, "running": 0},
    "running": {"pending": 0, "scheduled": 0, "running": 40_000},
    "pending": {"pending": 40_000, "scheduled": 0, "running": 0},
}


@pytest.fixture(scope="module", params=ONCE)
def misled(request, conninfo):
    """Return a worker's settings on tables whose statistics are of other days."""
    with (
        database(conninfo, f"misled_{request.param}") as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        fill(connection, **ONCE[request.param], history=0)
        connection.execute("ANALYZE")
        connection.execute("TRUNCATE jobs_active")
        fill_rows(connection, pending=300, scheduled=300, running=300, history=0)
        connection.execute("SET enable_seqscan = off")
        yield connection


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("file", BY_PLACE, ids=lambda file: file.name)
def test_what_is_written_by_place_is_found_by_place(transactional_db, misled, file, kind):
    plan = PLANS[kind](misled, file)

    # A condition that proves an index's own lets the planner read all of that index instead.
    assert [node for node in nodes(plan) if "ctid" in node.get("Filter", "")] == []
    assert [node for node in nodes(plan) if node["Node Type"] == "Tid Scan"] != []


@pytest.mark.parametrize("file", PROTOCOL, ids=lambda file: file.name)
def test_no_plan_is_thought_costly_enough_to_be_compiled(transactional_db, planning, file):
    """Where jit is on and cannot be turned off, behind a pooler, compiling takes 0.1 s or more."""
    (threshold,) = planning.execute("SELECT current_setting('jit_above_cost')").fetchone()

    assert custom_plan(planning, file)["Total Cost"] < float(threshold)
    assert generic_plan(planning, file)["Total Cost"] < float(threshold)


METHODS = [
    "bitmapscan",
    "hashagg",
    "hashjoin",
    "incremental_sort",
    "indexonlyscan",
    "indexscan",
    "material",
    "memoize",
    "mergejoin",
    "nestloop",
    "seqscan",
    "sort",
    "tidscan",
]
OFF = [(method,) for method in METHODS] + [
    ("nestloop", "mergejoin"),
    ("nestloop", "hashjoin"),
    ("hashjoin", "mergejoin"),
    ("indexscan", "indexonlyscan", "bitmapscan"),
    ("indexscan", "indexonlyscan", "bitmapscan", "tidscan", "nestloop"),
    ("tidscan", "seqscan", "indexscan"),
    ("material", "memoize", "sort", "hashagg"),
]
CLAIMS = [
    ("claim/claim_jobs", {}),
    ("claim/claim_jobs", {"evenly": True}),
    ("claim/claim_jobs_of_tenant", {}),
]


@pytest.fixture(scope="module")
def busy(conninfo):
    """Return a connection to a small database with jobs in two epochs."""
    with (
        database(conninfo, "claims") as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        fill(connection, pending=3_000, scheduled=100, running=200, history=10)
        connection.execute("UPDATE jobs_active SET tenant_id = 7 WHERE id % 3 = 0")
        connection.execute("SELECT setval('jobs_epoch', 2)")
        connection.execute("UPDATE jobs_active SET epoch = 2 WHERE id % 2 = 0")
        connection.execute("ANALYZE")
        yield connection


@pytest.mark.parametrize("off", OFF, ids="+".join)
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_takes_no_more_than_its_limit_whatever_the_plan(
    transactional_db, busy, claim, mode, off
):
    name, given = claim
    values = {
        "queue": "default",
        "worker_id": "worker-1",
        "limit": 40,
        "walked": 40,
        "tenant_id": 7,
        "after_tenant": 50,
        "carry": 0,
        "mean_weight": 10.0,
        "offset": 0.999,
        "default_weight": 10,
        "evenly": False,
        "lease": timedelta(minutes=5),
        "now": None,
        **given,
    }
    with busy.transaction(force_rollback=True):
        busy.execute(f"SET LOCAL plan_cache_mode = {mode}")
        for method in off:
            busy.execute(f"SET LOCAL enable_{method} = off")
        wanted = {name: values[name] for name in BY_NAME[name].placeholders}

        rows = busy.execute(statement(name), wanted, prepare=True).fetchall()

        (claimed,) = busy.execute(
            "SELECT count(*) FROM jobs_active WHERE locked_by = 'worker-1' "
            "AND locked_at >= transaction_timestamp()"
        ).fetchone()
    ids = [row[0] for row in rows if row[0] is not None]
    assert len(set(ids)) == len(ids) == claimed == 40
