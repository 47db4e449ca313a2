"""How long until a process that died is started again."""

from __future__ import annotations

from random import Random

import pytest

from django_pgjobs.worker.restarting import LONGEST, pause_before_restart


def test_after_a_healthy_life_it_starts_at_once():
    assert pause_before_restart(0, Random(1)) == 0


@pytest.mark.parametrize(("failures", "ceiling"), [(1, 0.5), (2, 1), (4, 4), (10_000, LONGEST)])
def test_each_failure_doubles_the_pause_up_to_the_longest(failures, ceiling):
    pauses = [pause_before_restart(failures, Random(seed)) for seed in range(50)]

    assert ceiling / 2 <= min(pauses) < max(pauses) <= ceiling
