"""A forgotten transaction does not make claims slower and slower.

Not timed: what a claim costs is counted in pages, which do not depend on the machine.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.sql import statement
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.connecting import connect as connect_worker
from django_pgjobs.store.epochs import read_epochs
from tests.worker.claims import claimer, fill, finish

BATCH = 100
ROUNDS = 60

CLAIM = {
    "queue": "default",
    "tenant_id": 0,
    "worker_id": "w",
    "limit": 1,
    "walked": 16,
    "lease": timedelta(minutes=5),
    "after_tenant": -1,
    "carry": 0,
    "mean_weight": 10.0,
    "offset": 0.5,
    "default_weight": 10,
    "evenly": False,
    "now": None,
}


@pytest.fixture
def forgotten(connect):
    """Return a connection that has been left in a transaction with a snapshot."""
    other = connect()
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT 1")
    return other


def keeper() -> EpochKeeper:
    return EpochKeeper(claims_per_epoch=200)


def pages(name: str, values: dict[str, object]) -> int:
    """Return how many pages a statement reads, and undo what it does."""
    # As a worker's connection plans it.
    with connect_worker("default", "test") as worker, worker.transaction(force_rollback=True):
        cursor = psycopg.ClientCursor(worker)
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}", values)
        plan = cursor.fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def pages_of_a_claim(name: str = "claim/claim_jobs") -> int:
    """Return how many pages the claim of one job reads."""
    return pages(name, CLAIM)


def put_through(connection, keeper: EpochKeeper | None) -> int:
    """Put jobs through, a hundred or two pending all the time; return what a claim costs then."""
    claims = claimer()
    fill(connection, 0, BATCH)
    for _ in range(ROUNDS):
        fill(connection, 0, BATCH)
        finish(connection, claims.claim(connection, BATCH))
        if keeper is not None:
            keeper.run_once(connection, batch_size=1000)
    return pages_of_a_claim()


def test_with_epochs_a_claim_costs_no_more_than_at_first(connection, forgotten):
    fill(connection, 0, BATCH)
    first = pages_of_a_claim()

    last = put_through(connection, keeper())

    assert last < 3 * first


def test_without_epochs_it_would(connection, forgotten):
    fill(connection, 0, BATCH)
    first = pages_of_a_claim()

    last = put_through(connection, keeper=None)

    assert last > 3 * first


def work_off(connection, keeper: EpochKeeper | None, *, tenants: int) -> tuple[int, int]:
    """Claim and complete most of a long backlog.

    Returns:
        What a claim cost before and after.
    """
    for tenant in range(tenants):
        fill(connection, tenant, (ROUNDS + 2) * BATCH // tenants)
    connection.execute("ANALYZE jobs_active")
    statements = ["claim/claim_jobs"] + ["claim/claim_jobs_of_tenant"] * (tenants == 1)
    first = max(pages_of_a_claim(name) for name in statements)
    claims = claimer()
    for _ in range(ROUNDS):
        finish(connection, claims.claim(connection, BATCH))
        if keeper is not None:
            keeper.run_once(connection, batch_size=1000)
    return first, max(pages_of_a_claim(name) for name in statements)


@pytest.mark.parametrize("tenants", [1, 20])
def test_with_floors_a_long_backlog_costs_a_claim_nothing(connection, forgotten, tenants):
    first, last = work_off(connection, keeper(), tenants=tenants)

    assert read_epochs(connection).kept == 1
    assert last < 3 * first


@pytest.mark.parametrize("tenants", [1, 20])
def test_without_floors_it_would(connection, forgotten, tenants):
    first, last = work_off(connection, None, tenants=tenants)

    assert last > 3 * first


SCHEDULE = """
    INSERT INTO jobs_active (epoch, created_at, scheduled_at, status, job_name)
    SELECT 1, now(), now() - interval '1 h' + number * interval '1 ms', 'scheduled', 'tests.noop'
    FROM generate_series(1, %s) AS number
"""


def stage_all(connection, keeper: EpochKeeper | None) -> tuple[int, int]:
    """Stage, claim and complete most of what is due.

    Returns:
        What it cost to stage one job before and after.
    """
    connection.execute(SCHEDULE, [(ROUNDS + 2) * BATCH])
    connection.execute("ANALYZE jobs_active")
    staging = {"limit": 1, "now": None}
    first = pages("claim/stage_jobs", staging)
    claims = claimer()
    for _ in range(ROUNDS):
        assert stage_jobs(connection, limit=BATCH).staged == BATCH
        finish(connection, claims.claim(connection, BATCH))
        if keeper is not None:
            keeper.run_once(connection, batch_size=1000)
    return first, pages("claim/stage_jobs", staging)


def test_with_a_floor_staging_costs_no_more_than_at_first(connection, forgotten):
    first, last = stage_all(connection, keeper())

    assert last < 3 * first


def test_without_a_floor_it_would(connection, forgotten):
    first, last = stage_all(connection, None)

    assert last > 3 * first
