"""How many connections real workers have."""

from __future__ import annotations

import pytest

from tests.acceptance.jobs import gated_in_transaction, quick
from tests.fix_database import url_of
from tests.fix_workers import running_processes, wait_until

pytestmark = pytest.mark.process

COUNT = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"

#: Of handlers.
QUERIES = """
    SELECT query FROM pg_stat_activity
    WHERE usename = %s AND state = 'idle in transaction'
"""


def queries(limited, role) -> list[str]:
    """Return what the handlers have executed last."""
    return sorted(query for (query,) in limited.connection.execute(QUERIES, [role]))


@pytest.fixture
def limited(role, connection, tmp_path):
    """Start processes as a role whose connections are counted."""
    address = url_of(connection).replace(f"//{connection.info.user}@", f"//{role}@")
    with running_processes(tmp_path, address, connection) as processes:
        yield processes


def test_a_worker_has_as_many_connections_as_is_written(limited, role, tmp_path):
    """Four of its own, and one for each handler that uses the ORM."""
    worker = limited.worker("--concurrency", "3")
    first = quick.enqueue().id
    limited.wait_for_status(first, "completed")
    gate = tmp_path / "gate"

    jobs = [gated_in_transaction.enqueue(gate=str(gate)).id for _ in range(4)]
    wait_until(lambda: limited.value(COUNT, role) == 4 + 3, "all are connected")
    marked = sorted(f"/* pgjobs job={job_id} */ SELECT 1" for job_id in jobs[:3])
    wait_until(lambda: queries(limited, role) == marked, "their queries name their jobs")
    gate.touch()
    limited.wait_until_empty()

    wait_until(lambda: limited.value(COUNT, role) == 4, "handlers have let go of theirs")
    assert "WARNING" not in worker.output()
    limited.check_invariants([first, *jobs])


def test_a_worker_that_may_need_more_than_it_can_have_says_so(limited, role):
    limited.connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 6")

    worker = limited.worker("--concurrency", "3")

    assert "connections, but the CONNECTION LIMIT of the role allows 6, and 0 are in use" in (
        worker.output()
    )
