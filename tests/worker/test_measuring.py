"""How much to claim ahead."""

from __future__ import annotations

from django_pgjobs.worker.measuring import MOST_IN_HAND, WAIT_AT_MOST, RunTime, jobs_in_hand


def test_nothing_is_claimed_ahead_while_nothing_is_known():
    assert jobs_in_hand(10, None) == 10


def test_slow_jobs_are_not_claimed_ahead():
    assert jobs_in_hand(10, seconds=60.0) == 10
    assert jobs_in_hand(1000, seconds=WAIT_AT_MOST) == 1000


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


def test_what_is_known_of_runs_that_go_on_counts_at_once():
    run_time = RunTime()
    run_time.note_at_least(1.0)
    assert run_time.seconds == 1.0
    for _ in range(200):
        run_time.note(0.001)

    run_time.note_at_least(1.0)

    assert run_time.seconds == 1.0
    run_time.note_at_least(0.5)
    assert run_time.seconds == 1.0
