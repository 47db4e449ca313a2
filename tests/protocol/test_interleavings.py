"""The promises hold in every order of the steps.

``PGJOBS_SCHEDULES`` is how many schedules of each scenario to run, ``PGJOBS_SEED`` from which
seed. Most scenarios have fewer schedules than a long run takes, and are exhausted.
"""

from __future__ import annotations

import os

import pytest

from .explorer import Explorer
from .scenarios import SCENARIOS

SCHEDULES = int(os.environ.get("PGJOBS_SCHEDULES", "15"))
SEED = int(os.environ.get("PGJOBS_SEED", "1"))

pytestmark = pytest.mark.slow


@pytest.fixture
def explorer(tables, conninfo):
    explorer = Explorer(conninfo, seed=SEED)
    yield explorer
    explorer.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_no_order_of_steps_breaks_a_promise(explorer, scenario, record_property):
    report = explorer.explore(scenario, limit=SCHEDULES)

    record_property("schedules", report.schedules)
    record_property("exhausted", report.is_exhausted)
    assert report.failures == []
    # Two operations that never meet have shown nothing.
    assert report.schedules > 1
