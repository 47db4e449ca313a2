"""What a claim costs does not depend on how much there is: counted in pages, not timed."""

from __future__ import annotations

import pytest

from django_pgjobs.store.epochs import (
    move_epoch,
    raise_epoch_low,
    use_floors,
    write_floors,
)
from tests.maintenance.test_pinned_horizon import CLAIM, pages

STATEMENTS = ["claim/claim_jobs", "claim/lock_capped_tenants"]

FILL = """
    INSERT INTO jobs_active
        (epoch, tenant_id, created_at, scheduled_at, status, job_name, priority)
    SELECT last_value, number, now(), now() + %s::interval, %s, 'tests.noop', %s
    FROM jobs_epoch,
        generate_series(1, %s) AS number
"""


def fill(connection, jobs: int, *, status: str = "pending", priority: int = 0) -> None:
    """Give each of so many tenants a job."""
    delay = "0" if status == "pending" else "1 month"
    connection.execute(FILL, [delay, status, priority, jobs])
    connection.execute("ANALYZE jobs_active")


def keep_backlog(connection) -> None:
    """Leave all that is pending in an epoch that is kept."""
    epoch = move_epoch(connection)
    use_floors(connection, generation=write_floors(connection, epoch=epoch).generation)
    raise_epoch_low(connection, epoch=epoch)
    connection.execute("ANALYZE claim_floors")


@pytest.mark.parametrize("is_kept", [False, True], ids=["live", "kept"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_claim_costs_no_more_with_more_tenants(connection, name, is_kept):
    costs = []
    for tenants in (100, 4_900):
        fill(connection, tenants)
        if is_kept:
            keep_backlog(connection)
        costs.append(pages(name, CLAIM))

    few, many = costs
    # Epochs add up a little; a walk over all tenants would cost fifty times as much.
    assert many < 4 * few


@pytest.mark.parametrize("name", [*STATEMENTS, "claim/claim_jobs_of_tenant"])
def test_jobs_of_next_month_cost_a_claim_nothing_however_urgent(connection, name):
    fill(connection, 100)
    before = pages(name, CLAIM)

    fill(connection, 20_000, status="scheduled", priority=100)

    assert pages(name, CLAIM) <= before + 5
