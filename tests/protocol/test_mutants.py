"""Every guard is missed when it is gone."""

from __future__ import annotations

import pytest

from tests.fix_database import empty_rows

from .explorer import Explorer, replaced_statements
from .mutants import MUTANTS
from .pauses import mutated
from .scenarios import BY_NAME

pytestmark = pytest.mark.slow

#: More than it takes to meet the mistake in any order of exploration.
MOST_SCHEDULES = 200

KILLERS = [
    pytest.param(mutant, killer, id=f"{mutant}-{killer}")
    for mutant in MUTANTS
    for killer in mutant.killers
]
WITH_ORACLE = [mutant for mutant in MUTANTS if mutant.oracle]


@pytest.mark.parametrize(("mutant", "killer"), KILLERS)
def test_an_interleaving_shows_that_a_guard_is_gone(tables, conninfo, mutant, killer):
    explorer = Explorer(conninfo, mutations=mutant.changes)
    try:
        report = explorer.explore(BY_NAME[killer], limit=MOST_SCHEDULES, stop_at_failure=True)
    finally:
        explorer.close()

    assert report.failures, f"survived {report.schedules} schedules"


@pytest.mark.parametrize("mutant", WITH_ORACLE, ids=str)
def test_an_oracle_shows_that_a_guard_is_gone(connection, mutant):
    mutant.oracle(connection)
    empty_rows(connection)

    with (
        replaced_statements(lambda name: mutated(name, mutant.changes.get(name, []))),
        pytest.raises(AssertionError),
    ):
        mutant.oracle(connection)


def test_every_mutant_has_somebody_to_notice_it():
    assert [mutant.name for mutant in MUTANTS if not mutant.killers and not mutant.oracle] == []
