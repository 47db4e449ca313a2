"""For how many jobs of each queue a worker has room."""

from __future__ import annotations

import threading

import pytest

from django_pgjobs.definitions.pools import ASYNC, PROCESSES, THREADS
from django_pgjobs.worker import capacity as capacity_module
from django_pgjobs.worker.attempts import AttemptsInHand
from django_pgjobs.worker.capacity import Capacity, Load
from django_pgjobs.worker.measuring import AHEAD


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves: a list of one time in seconds."""
    now = [1000.0]
    monkeypatch.setattr(capacity_module, "monotonic", lambda: now[0])
    return now


SIZES = {THREADS: 10, ASYNC: 100}


def test_a_pool_has_room_for_what_it_runs_at_a_time():
    load = Load(10)
    assert load.room == 10

    load.add(3)

    assert load.room == 7
    assert load.places == 7


def test_of_fast_jobs_more_are_claimed_when_half_of_those_ahead_are_done():
    load = Load(10)
    load.run_time.note(0.005)

    load.add(90)
    assert load.room == 0
    load.remove(6)

    assert load.room == 160 - 84
    assert load.places == 0


def test_nothing_is_claimed_ahead_of_jobs_that_take_longer_than_was_thought(clock):
    load = Load(10)
    load.run_time.note(0.005)
    load.add(10)
    assert load.room == 150

    clock[0] += AHEAD + 0.001

    assert load.room == 0
    load.remove(1)
    assert load.room == 160 - 9
    clock[0] += 60
    assert load.room == 160 - 9


def test_a_queue_has_room_as_its_own_pools_have():
    capacity = Capacity(SIZES, [("mail", ASYNC), ("reports", THREADS), ("both", ASYNC)])
    capacity.note_pool("both", THREADS)

    capacity.loads[THREADS].add(10)

    assert capacity.room("mail") == 100
    assert capacity.room("reports") == 0
    assert capacity.room("both") == 0
    assert capacity.places("both") == 0
    assert capacity.places("mail") == 100


def test_from_a_queue_of_which_nothing_is_known_anything_may_come():
    capacity = Capacity(SIZES, [("mail", ASYNC), ("reports", THREADS)])

    assert capacity.room("other") == 10
    capacity.note_pool("other", ASYNC)

    assert capacity.room("other") == 100


def test_a_pool_to_which_no_declared_job_goes_holds_up_nothing():
    capacity = Capacity({THREADS: 10, PROCESSES: 1}, [("mail", THREADS)])

    assert capacity.room("other") == 10


def test_who_is_woken_before_it_waits_does_not_wait():
    in_hand = AttemptsInHand({})

    in_hand.wake()

    assert in_hand.wait_for(lambda: False, timeout=60) is False


def test_who_waits_is_woken():
    in_hand = AttemptsInHand({})
    waiting = threading.Thread(target=lambda: in_hand.wait_for(lambda: False, timeout=60))
    waiting.start()

    in_hand.wake()

    waiting.join(10)
    assert not waiting.is_alive()
