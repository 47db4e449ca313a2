"""How an idle worker waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.producer import waking
from django_pgjobs.worker import idleness
from django_pgjobs.worker.idleness import IDLE_AFTER, LOOK_EVERY, LOOK_ON_FOR, Idleness

ONE, BOTH = frozenset({"default"}), frozenset({"default", "mail"})


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves: a list of one time in seconds."""
    now = [1000.0]
    monkeypatch.setattr(idleness, "monotonic", lambda: now[0])
    return now


def test_a_worker_looks_often_until_it_may_sleep(clock):
    idle = Idleness(timedelta(seconds=5))

    waits = [idle.next_wait(ONE) for _ in range(6)]

    assert waits == [LOOK_EVERY] * 6


def test_one_that_nobody_can_wake_looks_less_and_less_often(clock):
    idle = Idleness(timedelta(seconds=0.1), listens=False)

    waits = [idle.next_wait(ONE) for _ in range(6)]

    assert waits == [0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    idle.note_work()
    assert idle.next_wait(ONE) == 0.01


def test_one_that_nobody_can_wake_says_nothing(clock):
    idle = Idleness(timedelta(seconds=5), listens=False)

    clock[0] += 60
    idle.note_unsure()

    assert not idle.should_say_so(ONE)
    assert not idle.has_said_so


def test_it_says_that_it_is_idle_once_after_a_while(clock):
    idle = Idleness(timedelta(seconds=5))
    assert not idle.should_say_so(ONE)

    clock[0] += IDLE_AFTER + 0.001
    assert idle.should_say_so(ONE)
    idle.note_said(ONE)

    assert not idle.should_say_so(ONE)


def test_it_says_so_again_when_it_is_idle_for_other_queues(clock):
    idle = Idleness(timedelta(seconds=5))
    clock[0] += 1
    idle.note_said(BOTH)

    assert idle.has_said_so_of(ONE)
    idle.note_said(BOTH - ONE)
    assert not idle.has_said_so_of(ONE)
    assert idle.has_said_so

    assert idle.should_say_so(BOTH)
    assert not idle.should_say_so(frozenset())


def test_only_for_a_queue_that_it_had_not_said_it_looks_on(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(BOTH)
    clock[0] += LOOK_ON_FOR

    idle.note_said(ONE)
    assert idle.next_wait(ONE) == 5.0
    assert idle.next_wait(BOTH) == LOOK_EVERY
    idle.note_said(BOTH)
    assert idle.next_wait(BOTH) == LOOK_EVERY


def test_after_an_error_it_believes_that_producers_may_wake_it_or_not(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_unsure()
    clock[0] += IDLE_AFTER + 0.001

    assert idle.has_said_so_of(ONE)
    assert idle.should_say_so(ONE)
    idle.note_said(frozenset())
    assert not idle.has_said_so


def test_it_looks_on_for_longer_than_a_producer_believes_that_nobody_is_idle(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(ONE)
    began = clock[0]

    while idle.next_wait(ONE) == LOOK_EVERY:
        clock[0] += LOOK_EVERY

    assert clock[0] - began >= LOOK_ON_FOR - LOOK_EVERY > waking.BELIEVED_FOR


def test_then_it_sleeps_up_to_the_poll_interval(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(ONE)

    clock[0] += LOOK_ON_FOR

    assert idle.next_wait(ONE) == 5.0


def test_it_sleeps_no_longer_than_until_a_job_is_due(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(ONE)
    clock[0] += LOOK_ON_FOR
    idle.note_staged(timedelta(seconds=2))
    clock[0] += 0.5

    assert idle.next_wait(ONE) == pytest.approx(1.5)


def test_a_job_now_and_then_changes_nothing(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(ONE)

    for _ in range(20):
        clock[0] += 0.5
        idle.note_work()

    assert not idle.should_take_back()
    assert idle.has_said_so


def test_a_worker_that_has_work_all_the_time_takes_it_back(clock):
    idle = Idleness(timedelta(seconds=5))
    idle.note_said(ONE)
    clock[0] += 10

    idle.note_work()
    assert not idle.should_take_back()
    for _ in range(40):
        clock[0] += 0.01
        idle.note_work()

    assert idle.should_take_back()
    idle.note_said(frozenset())
    assert not idle.has_said_so
    assert not idle.should_take_back()
