"""Threads that hang."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from django_pgjobs.worker.silence import LOOK_EVERY, Silence

#: Looks for which a thread may stand still.
LIMIT = 3


@pytest.fixture
def silence():
    """Return the silence of a thread, and the number of its turns to be set."""
    turns = [0]
    limit = timedelta(seconds=LIMIT * LOOK_EVERY)
    return Silence(threading.current_thread(), lambda: turns[0], limit), turns


def test_who_moves_is_not_silent(silence):
    silence, turns = silence

    for turns[0] in range(10):
        assert not silence.is_too_long()


def test_who_has_nothing_to_do_is_not_silent(silence):
    silence, turns = silence
    turns[0] = None

    assert not any(silence.is_too_long() for _ in range(10))


def test_who_stands_still_for_longer_than_the_limit_is_silent_for_too_long(silence):
    silence, turns = silence

    seen = [silence.is_too_long() for _ in range(LIMIT + 2)]

    assert seen == [False] * (LIMIT + 1) + [True]
    turns[0] += 1
    assert not silence.is_too_long()


def test_it_says_where_the_thread_is(silence):
    silence, _ = silence

    assert "test_it_says_where_the_thread_is" in silence.stack()
