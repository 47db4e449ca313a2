"""What the pools promise."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from django_pgjobs.worker.pools.group import PoolGroup
from django_pgjobs.worker.pools.threads import ThreadPool
from django_pgjobs.worker.timeouts import DeadlineWatch

PATIENCE = 30


@pytest.fixture
def gates():
    """Open every gate at the end, so that no thread is left behind."""
    gates = {}
    yield gates
    for gate in gates.values():
        gate.set()


@pytest.fixture
def pool(gates):
    """Return a pool of one thread, whose handlers wait for the gate of their number."""
    begun = threading.Semaphore(0)

    def work(attempt):
        begun.release()
        gates[attempt.number].wait(PATIENCE)
        attempt.ended.set()

    pool = ThreadPool(1, work)
    pool.begun = begun
    pool.start()
    yield pool
    pool.stop()


@pytest.fixture
def attempts(gates):
    """Return two attempts and make their gates."""
    gates.update({number: threading.Event() for number in (1, 2)})
    return [SimpleNamespace(number=number, ended=threading.Event()) for number in (1, 2)]


def test_what_has_not_begun_can_be_taken_back(pool, attempts, gates):
    pool.submit(attempts)
    assert pool.begun.acquire(timeout=PATIENCE)

    assert pool.take_back() == [attempts[1]]
    assert pool.is_busy
    gates[1].set()

    assert attempts[0].ended.wait(PATIENCE)


def test_what_waits_for_too_long_can_be_taken_back(pool, attempts, gates):
    pool.submit(attempts)
    assert pool.begun.acquire(timeout=PATIENCE)

    # One has begun just now.
    assert pool.take_back_ahead(PATIENCE) == []
    assert pool.take_back_ahead(0) == [attempts[1]]
    assert pool.take_back_ahead(0) == []
    gates[1].set()

    assert attempts[0].ended.wait(PATIENCE)


def test_what_has_a_place_is_not_taken_back(pool, attempts, gates):
    pool.submit(attempts[:1])
    assert pool.begun.acquire(timeout=PATIENCE)
    pool.write_off(attempts[0])

    pool.submit(attempts[1:])

    assert pool.take_back_ahead(0) == []
    assert pool.begun.acquire(timeout=PATIENCE)
    gates[2].set()
    assert attempts[1].ended.wait(PATIENCE)


def test_the_place_of_a_thread_that_is_written_off_is_filled(pool, attempts, gates):
    pool.submit(attempts)
    assert pool.begun.acquire(timeout=PATIENCE)

    stack = pool.write_off(attempts[0])

    assert "gates[attempt.number].wait" in stack
    assert pool.begun.acquire(timeout=PATIENCE)
    gates[2].set()
    assert attempts[1].ended.wait(PATIENCE)
    assert not attempts[0].ended.is_set()
    assert pool.stuck == 1


def test_a_thread_that_was_written_off_takes_nothing_more(pool, attempts, gates):
    pool.submit(attempts[:1])
    assert pool.begun.acquire(timeout=PATIENCE)
    pool.write_off(attempts[0])

    gates[1].set()
    assert attempts[0].ended.wait(PATIENCE)
    pool.submit(attempts[1:])

    assert pool.begun.acquire(timeout=PATIENCE)
    assert not pool.begun.acquire(blocking=False)
    assert pool.stuck == 0


def test_an_attempt_that_has_ended_cannot_be_written_off(pool, attempts, gates):
    gates[1].set()
    pool.submit(attempts[:1])
    assert attempts[0].ended.wait(PATIENCE)
    pool.submit(attempts[1:])
    assert pool.begun.acquire(timeout=PATIENCE)
    assert pool.begun.acquire(timeout=PATIENCE)

    assert pool.write_off(attempts[0]) is None
    assert pool.stuck == 0


class TestPoolGroup:
    """All pools as one."""

    def test_each_attempt_goes_to_the_pool_it_names_in_order(self):
        one, two = Recorder(), Recorder()
        group = PoolGroup({"one": one, "two": two}, DeadlineWatch())
        attempts = [SimpleNamespace(pool=name) for name in ("two", "one", "two")]

        group.submit(attempts)

        assert one.waiting == [attempts[1]]
        assert two.waiting == [attempts[0], attempts[2]]
        assert group.take_back() == [attempts[1], attempts[0], attempts[2]]

    def test_only_the_pool_of_an_attempt_is_told_that_it_is_unwanted(self):
        one, two = Recorder(), Recorder()
        attempt = SimpleNamespace(pool="two")

        PoolGroup({"one": one, "two": two}, DeadlineWatch()).interrupt(attempt)

        assert (one.interrupted, two.interrupted) == ([], [attempt])


class Recorder:
    """A pool that runs nothing."""

    def __init__(self):
        self.waiting = []
        self.interrupted = []

    def submit(self, attempts):
        self.waiting.extend(attempts)

    def take_back(self):
        return self.waiting

    def interrupt(self, attempt):
        self.interrupted.append(attempt)
