"""A forgotten transaction does not make claims slower and slower.

Not timed: what a claim costs is counted in pages, which do not depend on the machine.
"""

from __future__ import annotations

import psycopg
import pytest

from django_pgjobs.maintenance.epochs import EpochKeeper
from django_pgjobs.sql import statement
from django_pgjobs.store.connecting import connect as connect_worker
from tests.worker.claims import claimer, fill, finish

BATCH = 100
ROUNDS = 60


@pytest.fixture
def forgotten(connect):
    """Return a connection that has been left in a transaction with a snapshot."""
    other = connect()
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT 1")
    return other


def pages_of_a_claim() -> int:
    """Return how many pages the claim of one job reads, without keeping it."""
    values = {
        "queue": "default",
        "worker_id": "w",
        "limit": 1,
        "lease": "5 min",
        "after_tenant": -1,
        "carry": 0,
        "mean_weight": 10.0,
        "offset": 0.5,
        "default_weight": 10,
        "now": None,
    }
    # As a worker's connection plans it.
    with connect_worker("default", "test") as worker, worker.transaction(force_rollback=True):
        cursor = psycopg.ClientCursor(worker)
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement('claim/claim_jobs')}", values
        )
        plan = cursor.fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


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

    last = put_through(connection, EpochKeeper(claims_per_epoch=200))

    assert last < 3 * first


def test_without_epochs_it_would(connection, forgotten):
    fill(connection, 0, BATCH)
    first = pages_of_a_claim()

    last = put_through(connection, keeper=None)

    assert last > 3 * first
