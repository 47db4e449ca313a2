"""How much to claim ahead."""

from __future__ import annotations

from django_pgjobs.worker.measuring import MOST_IN_HAND, RunTime, jobs_in_hand


def test_nothing_is_claimed_ahead_while_nothing_is_known():
    assert jobs_in_hand(10, None) == 10


def test_slow_jobs_are_not_claimed_ahead():
    assert jobs_in_hand(10, seconds=60.0) == 10


def test_of_fast_jobs_about_75_milliseconds_of_work_are_claimed_ahead():
    assert jobs_in_hand(10, seconds=0.005) == 10 + 150


def test_the_number_in_hand_is_bounded():
    assert jobs_in_hand(10, seconds=0.0) == MOST_IN_HAND
    assert jobs_in_hand(5000, seconds=0.0) == 5000


def test_the_average_follows_a_change_of_speed():
    run_time = RunTime()
    for _ in range(10):
        run_time.note(0.001)

    for _ in range(200):
        run_time.note(1.0)

    assert run_time.seconds > 0.9
