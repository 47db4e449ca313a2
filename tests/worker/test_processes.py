"""The pool of processes, without a worker around it."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from queue import SimpleQueue
from random import Random

import pytest

from django_pgjobs import JobContext
from django_pgjobs.definitions.pools import PROCESSES
from django_pgjobs.definitions.registry import registry
from django_pgjobs.states import Outcome
from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.finish import Success
from django_pgjobs.worker.attempts import Attempt
from django_pgjobs.worker.measuring import RunTime
from django_pgjobs.worker.pools.place import ProcessOptions
from django_pgjobs.worker.pools.processes import ProcessPool
from django_pgjobs.worker.timeouts import DeadlineWatch
from tests.acceptance.jobs import gated_apart, grow, leave_alarm, outlive_alarm
from tests.fix_workers import run_without_threads, wait_until

pytestmark = pytest.mark.process

PATIENCE = 60


@pytest.fixture
def outcomes():
    """Return the queue of what has been finished."""
    return SimpleQueue()


def make_pool(finish):
    watch = DeadlineWatch()
    pool = ProcessPool(
        1,
        options=ProcessOptions(
            worker_id="worker-a", grace=timedelta(seconds=1), max_jobs=None, max_memory=None
        ),
        registry=registry,
        run_time=RunTime(),
        watch=watch,
        finish=finish,
        random=Random(1),
    )
    pool.watch = watch
    return pool


@pytest.fixture
def pool(outcomes, monkeypatch, tmp_path):
    """Return a pool of one process."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.acceptance.settings")
    monkeypatch.setenv("PGJOBS_TEST_LEDGER", str(tmp_path / "ledger"))
    pool = make_pool(lambda attempt, outcome: outcomes.put((attempt, outcome)))
    pool.start()
    yield pool
    pool.take_back()
    pool.stop()
    pool.watch.stop()


def attempt_of(definition, payload, *, number=1, losses=0):
    job = ClaimedJob(
        id=number,
        job_name=definition.name,
        tenant_id=0,
        queue_name="apart",
        priority=0,
        claim_order=0,
        fence_token=100 + number,
        attempt=1,
        max_attempts=3,
        claims=1,
        payload=payload,
        payload_version=1,
        meta=None,
        losses=losses,
    )
    context = JobContext(id=number, name=definition.name)
    return Attempt(job, context, PROCESSES)


def pid_of(pool, outcomes, **options):
    """Run a job; return the process id that it has seen."""
    pool.submit([attempt_of(grow, '{"size":1}', **options)])
    _, outcome = outcomes.get(timeout=PATIENCE)
    assert isinstance(outcome, Success)
    return int(outcome.result)


def test_one_process_runs_one_job_after_the_other(pool, outcomes):
    assert pid_of(pool, outcomes) == pid_of(pool, outcomes, number=2)


def test_a_suspect_has_a_fresh_process_which_ends(pool, outcomes):
    before = pid_of(pool, outcomes)

    alone = pid_of(pool, outcomes, number=2, losses=2)
    after = pid_of(pool, outcomes, number=3)

    assert len({before, alone, after}) == 3


def test_a_process_that_has_died_while_idle_costs_no_attempt(pool, outcomes):
    before = pid_of(pool, outcomes)

    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)

    assert pid_of(pool, outcomes, number=2) != before


def test_what_has_not_begun_is_taken_back(pool, outcomes, tmp_path):
    gate = tmp_path / "gate"
    payload = f'{{"gate":"{gate}"}}'
    running, waiting = (attempt_of(gated_apart, payload, number=number) for number in (1, 2))
    pool.submit([running, waiting])

    # The first one may not have begun either.
    taken = pool.take_back()
    gate.touch()
    pool.stop()

    ended = [outcomes.get(timeout=PATIENCE)[0] for _ in range(2 - len(taken))]
    assert {*taken, *ended} == {running, waiting}
    assert waiting in taken
    assert not pool.is_busy


def test_what_waits_for_too_long_is_taken_back(pool, outcomes, tmp_path):
    gate = tmp_path / "gate"
    payload = f'{{"gate":"{gate}"}}'
    attempts = [attempt_of(gated_apart, payload, number=number) for number in (1, 2, 3)]
    pool.submit(attempts[:1])
    # A process is being started for it.
    assert pool.take_back_ahead(0) == []
    wait_until(lambda: pool.is_busy, "it begins")

    pool.submit(attempts[1:])

    assert pool.take_back_ahead(PATIENCE) == []
    assert pool.take_back_ahead(0) == attempts[1:]
    assert pool.take_back_ahead(0) == []
    gate.touch()
    assert outcomes.get(timeout=PATIENCE)[0] is attempts[0]


def test_a_job_that_was_cancelled_while_it_waited_does_not_begin(pool, outcomes):
    attempt = attempt_of(grow, '{"size":1}')
    attempt.context.cancel()

    pool.submit([attempt])

    _, outcome = outcomes.get(timeout=PATIENCE)
    assert outcome.outcome is Outcome.RELEASED


def test_a_place_for_which_there_is_no_thread_does_not_keep_the_pool_from_stopping():
    run_without_threads("pool")


def test_an_alarm_that_a_handler_leaves_behind_does_not_go_off_in_the_next_job(pool, outcomes):
    pool.submit([attempt_of(leave_alarm, "{}"), attempt_of(outlive_alarm, "{}", number=2)])

    ends = [outcomes.get(timeout=PATIENCE)[1] for _ in range(2)]

    assert [type(end) for end in ends] == [Success, Success]
