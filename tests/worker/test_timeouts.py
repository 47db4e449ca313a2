"""JobTimeout is raised inside the block or not at all."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial
from time import monotonic

import pytest

from django_pgjobs.exceptions import JobTimeout
from django_pgjobs.worker.timeouts import Deadline, DeadlineWatch


@pytest.fixture
def watch():
    watch = DeadlineWatch()
    yield watch
    watch.stop()


def spin(rounds: int = 3_000_000_000) -> None:
    """Be busy; for half a minute, on a fast machine, if nothing puts an end to it."""
    for _ in range(rounds):
        pass


def test_a_block_that_runs_too_long_is_interrupted(watch):
    with pytest.raises(JobTimeout), Deadline(watch, 0.01):
        spin()


class Spinning:
    """Spins when it is thrown away."""

    def __del__(self):
        spin()


@pytest.fixture
def spinning_collector():
    """Have the garbage collector spin."""

    def callback(phase, info):
        spin()

    gc.callbacks.append(callback)
    yield
    gc.callbacks.remove(callback)


def test_one_that_is_lost_in_a_destructor_is_raised_again(watch):
    def handler():
        Spinning()
        spin()

    with pytest.raises(JobTimeout), Deadline(watch, 0.01):
        handler()


def test_one_that_is_lost_in_the_garbage_collector_is_raised_again(watch, spinning_collector):
    def handler():
        gc.collect()
        spin()

    with pytest.raises(JobTimeout), Deadline(watch, 0.01):
        handler()


def test_a_block_that_ends_in_time_is_left_alone(watch):
    with Deadline(watch, 60.0) as deadline:
        pass

    assert not deadline.has_passed


def test_a_deadline_that_passes_after_the_block_raises_nothing(watch):
    with Deadline(watch, 60.0) as deadline:
        pass

    deadline.pass_()

    spin(1000)
    assert not deadline.has_passed


def test_a_deadline_that_passes_at_the_last_moment_raises_inside_the_block(watch):
    raised_inside = False
    try:
        with Deadline(watch, 60.0) as deadline:
            # Set for this very thread, and delivered by the time the block has been left.
            deadline.pass_()
    except JobTimeout:
        raised_inside = True

    spin(1000)
    assert raised_inside or deadline.has_passed


def test_what_has_ended_in_time_is_not_kept_until_its_deadline(watch):
    class Argument:
        pass

    kept = []
    for _ in range(5_000):
        argument = Argument()
        kept.append(weakref.ref(argument))
        with Deadline(watch, 3600.0, on_overdue=partial(print, argument)):
            pass
    del argument

    assert sum(reference() is not None for reference in kept) <= 1_001


def test_a_deadline_among_many_that_have_ended_passes_all_the_same(watch):
    def drop_many_and_spin():
        for _ in range(3_000):
            watch.drop(ended := Deadline(watch, 3600.0))
            watch.add(monotonic() + 3600, ended)
        spin()

    with pytest.raises(JobTimeout), Deadline(watch, 0.5):
        drop_many_and_spin()


def test_no_deadline_means_no_thread(watch):
    before = threading.active_count()

    with Deadline(watch, None):
        pass

    assert threading.active_count() == before


def test_deadlines_pass_in_their_own_order(watch):
    with Deadline(watch, 60.0), pytest.raises(JobTimeout), Deadline(watch, 0.01):
        spin()


def test_a_handler_may_catch_its_timeout(watch):
    cleaned = False
    with Deadline(watch, 0.01):
        try:
            spin()
        except JobTimeout:
            cleaned = True

    spin(1000)
    assert cleaned
