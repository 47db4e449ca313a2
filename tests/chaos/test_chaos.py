"""A short run of chaos; ``make chaos`` makes long ones."""

from __future__ import annotations

import pytest

from tests.chaos.acts import ACTS
from tests.chaos.faults import KINDS, PAUSE, schedule
from tests.chaos.run import run_chaos, run_kills, run_zombies

SECONDS = 10.0

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(600)]


def test_nothing_is_broken(tmp_path):
    verdict = run_chaos(tmp_path, schedule(1, SECONDS), seed=1, seconds=SECONDS)

    print(verdict.figures)
    assert verdict.problems == []
    # Otherwise it would say nothing about fences.
    assert verdict.figures["jobs whose handlers came to their end more than once"] > 0


def test_workers_without_a_fence_are_noticed(tmp_path):
    verdict = run_zombies(tmp_path, mutant="unfenced")

    broken = {problem.split()[0] for problem in verdict.problems}
    assert "I13" in broken


def test_killed_workers_lose_nothing(tmp_path):
    verdict = run_kills(tmp_path, jobs=5_000, kills=5)

    print(verdict.figures)
    assert verdict.problems == []
    assert verdict.figures["attempts that did not succeed"]["lost"] > 0


def test_a_seed_gives_the_same_faults():
    assert schedule(3, 60.0) == schedule(3, 60.0)
    assert schedule(3, 60.0) != schedule(4, 60.0)


def test_a_long_run_has_faults_of_every_kind():
    hand = sum(kind.cards for kind in KINDS.values())

    faults = schedule(1, hand * PAUSE[1] * 2)

    assert {fault.kind for fault in faults} == set(KINDS) == set(ACTS)
