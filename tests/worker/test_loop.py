"""Handlers in an event loop: many at once, none in the way of another."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from queue import SimpleQueue

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.utils import timezone, translation

from django_pgjobs import Cancel, JobContext, Retry, signals
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.pools import ASYNC
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.states import Outcome
from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.finish import Success
from django_pgjobs.worker.async_execution import AsyncExecution
from django_pgjobs.worker.attempts import Attempt
from django_pgjobs.worker.measuring import RunTime
from django_pgjobs.worker.pools.loop import LoopPool
from tests.fix_workers import wait_until
from tests.worker.hostile import HOSTILE, NoText, hostile_log

#: Seconds that no test waits.
PATIENCE = 60.0


class Loop:
    """A loop pool, and what came of its attempts."""

    def __init__(self, size=100, *, threads=2, grace=PATIENCE, patience=PATIENCE):
        self.registry = Registry()
        self.stopping = threading.Event()
        self.overdue = SimpleQueue()
        self.stuck = SimpleQueue()
        self.batches = []
        self._outcomes = SimpleQueue()
        execution = AsyncExecution(
            registry=self.registry, run_time=RunTime(), max_result_bytes=1000
        )
        self.pool = LoopPool(
            size,
            execution.run,
            self._finish,
            threads=threads,
            grace=timedelta(seconds=grace),
            patience=timedelta(seconds=patience),
            on_overdue=self.overdue.put,
            on_stuck=self.stuck.put,
        )
        self.pool.start()

    def attempt(self, function, number=1, **options):
        """Return an attempt of a handler."""
        name = function.__qualname__
        if name not in self.registry:
            self.registry.add(JobDefinition(name=name, function=function, **options))
        context = JobContext(id=number, name=name, _stopping=self.stopping)
        return Attempt(claimed(number, name), context, ASYNC)

    def submit(self, function, count=1, **options):
        """Run attempts of a handler; return them."""
        attempts = [self.attempt(function, number, **options) for number in range(1, count + 1)]
        self.pool.submit(attempts)
        return attempts

    def run(self, function, count=1, **options):
        """Return the outcomes of attempts of a handler, by number."""
        self.submit(function, count, **options)
        return self.outcomes(count)

    def outcomes(self, count):
        """Return the next outcomes, by the number of their attempts."""
        pairs = [self._outcomes.get(timeout=PATIENCE) for _ in range(count)]
        return [outcome for _, outcome in sorted(pairs, key=lambda pair: pair[0].job.id)]

    def _finish(self, outcomes):
        self.batches.append(len(outcomes))
        for pair in outcomes:
            self._outcomes.put(pair)


def claimed(number, name):
    return ClaimedJob(
        id=number,
        job_name=name,
        tenant_id=0,
        queue_name="default",
        priority=0,
        claim_order=0,
        fence_token=number + 100,
        attempt=1,
        max_attempts=3,
        claims=1,
        payload="{}",
        payload_version=1,
        meta=None,
    )


@pytest.fixture
def make_loop():
    made = []

    def make_loop(*args, **options):
        made.append(Loop(*args, **options))
        return made[-1]

    yield make_loop
    for loop in made:
        loop.pool.take_back()
        loop.stopping.set()
        loop.pool.stop()
        loop.pool._thread.join(PATIENCE)
        assert not loop.pool.is_busy


@pytest.fixture
def loop(make_loop):
    return make_loop()


class Crowd:
    """Handlers that wait for each other: none ends before all are there."""

    def __init__(self, count):
        self.count = count
        self.present = 0
        self.complete = asyncio.Event()

    async def handler(self):
        self.present += 1
        if self.present == self.count:
            self.complete.set()
        await self.complete.wait()


def crowd_of(count):
    """Return a handler of which ``count`` must run at the same time."""
    crowd = Crowd(count)

    async def handler():
        await crowd.handler()

    handler.__qualname__ = f"crowd of {count}"
    return handler


def test_hundreds_run_at_the_same_time(make_loop):
    loop = make_loop(size=500)

    outcomes = loop.run(crowd_of(500), 500)

    assert outcomes == [Success(number, number + 100, None) for number in range(1, 501)]


def test_no_more_run_at_a_time_than_there_are_places(make_loop):
    loop = make_loop(size=7)
    now, most = 0, 0
    full = asyncio.Event()

    async def handler():
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 7:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        now -= 1

    assert len(loop.run(handler, 100)) == 100

    assert most == 7


def test_what_ends_together_is_finished_together(make_loop):
    loop = make_loop(size=50)

    loop.run(crowd_of(50), 50)

    assert max(loop.batches) > 1


def test_results_and_errors_are_those_of_threads(loop):
    async def handler(context):
        match context.id:
            case 1:
                return {"total": 3}
            case 2:
                raise ValueError("no such order")
            case 3:
                raise Retry("later", delay=timedelta(minutes=1))
            case 4:
                raise Cancel("not wanted any more")

    success, failure, retry, cancel = loop.run(handler, 4)

    assert success == Success(1, 101, '{"total":3}')
    assert (failure.outcome, failure.error_message) == (Outcome.FAILED, "no such order")
    assert "in handler" in failure.traceback
    assert (retry.outcome, retry.delay) == (Outcome.FAILED, timedelta(minutes=1))
    assert (cancel.outcome, cancel.error_message) == (Outcome.CANCELLED, "not wanted any more")


def test_an_unknown_job_goes_back(loop):
    attempt = loop.attempt(crowd_of(1))
    attempt.job = claimed(1, "unknown")

    loop.pool.submit([attempt])

    assert loop.outcomes(1)[0].outcome == Outcome.RELEASED


def test_at_its_timeout_a_handler_is_cancelled_where_it_waits(loop):
    seen = []

    async def handler():
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError as error:
            seen.append(error)
            raise

    (ending,) = loop.run(handler, timeout=timedelta(milliseconds=20))

    assert len(seen) == 1
    assert (ending.outcome, ending.error_class) == (
        Outcome.TIMEOUT,
        "django_pgjobs.exceptions.JobTimeout",
    )
    assert "await asyncio.sleep(PATIENCE)" in ending.traceback


def test_what_a_handler_has_started_ends_at_its_timeout_too(loop):
    """It would not if JobTimeout were raised where the handler waits for the group."""
    ended = []

    async def child():
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append(True)

    async def handler():
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())

    (ending,) = loop.run(handler, timeout=timedelta(milliseconds=20))

    assert (ending.outcome, ended) == (Outcome.TIMEOUT, [True, True])


def test_a_handler_that_makes_the_best_of_its_timeout_succeeds(loop):
    async def handler():
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            return "as far as I came"

    assert loop.run(handler, timeout=timedelta(milliseconds=20))[0].result == '"as far as I came"'


def test_a_handler_that_goes_on_after_its_timeout_is_overdue(make_loop):
    loop = make_loop(size=1, grace=0.01)
    gate = asyncio.Event()

    async def handler():
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    (attempt,) = loop.submit(handler, timeout=timedelta(milliseconds=20))

    assert loop.overdue.get(timeout=PATIENCE) is attempt
    stack = loop.pool.write_off(attempt)
    assert "await gate.wait()" in stack
    assert loop.pool.stuck == 1
    # Another takes its place, and nobody wants to know how it ends.
    assert len(loop.run(crowd_of(1))) == 1
    loop.pool.call(gate.set)
    wait_until(lambda: loop.pool.stuck == 0, "the handler ends")
    assert loop.pool.write_off(attempt) is None


def test_an_interrupted_handler_is_cancelled_alone(loop):
    gate, begun = asyncio.Event(), []
    cancelled = []

    async def handler(context):
        begun.append(context.id)
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancelled.append(context.id)
            raise

    attempts = loop.submit(handler, 3)
    wait_until(lambda: len(begun) == 3, "all have begun")

    attempts[1].context.cancel()
    loop.pool.interrupt(attempts[1])
    (ending,) = loop.outcomes(1)

    assert (ending.id, ending.outcome) == (2, Outcome.CANCELLED)
    loop.pool.call(gate.set)
    assert [outcome.id for outcome in loop.outcomes(2)] == [1, 3]
    assert cancelled == [2]


def test_a_handler_is_interrupted_once_and_may_take_its_time(loop):
    gate, begun, cleaning = asyncio.Event(), threading.Event(), threading.Event()

    async def handler():
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            cleaning.set()
            await gate.wait()

    (attempt,) = loop.submit(handler)
    assert begun.wait(PATIENCE)
    attempt.context.cancel()
    loop.pool.interrupt(attempt)
    assert cleaning.wait(PATIENCE)

    # With each beat of the heart.
    loop.pool.interrupt(attempt)
    loop.pool.call(gate.set)

    assert loop.outcomes(1)[0].outcome == Outcome.CANCELLED


def test_an_attempt_that_is_interrupted_before_it_begins_has_an_outcome(make_loop):
    loop = make_loop(size=1)
    loop.run(crowd_of(1))
    attempt = loop.attempt(crowd_of(2), 2)
    attempt.context.cancel()

    # All in one turn of the loop, so that the task has not had its first step.
    def turn():
        loop.pool.submit([attempt])
        loop.pool._fill()
        loop.pool._interrupt(attempt)

    loop.pool.call(turn)

    assert loop.outcomes(1)[0].outcome == Outcome.CANCELLED


def test_a_task_that_somebody_cancels_before_it_begins_is_given_back(make_loop):
    loop = make_loop(size=1)
    loop.run(crowd_of(1))
    attempt = loop.attempt(crowd_of(2), 2)

    def turn():
        loop.pool.submit([attempt])
        loop.pool._fill()
        task, _ = loop.pool._running[attempt]
        task.cancel()

    loop.pool.call(turn)

    assert loop.outcomes(1)[0].outcome == Outcome.RELEASED


def test_a_cancellation_of_its_own_is_a_failure(loop):
    async def handler():
        asyncio.current_task().cancel()
        await asyncio.sleep(PATIENCE)

    (ending,) = loop.run(handler)

    assert (ending.outcome, ending.error_class) == (
        Outcome.FAILED,
        "asyncio.exceptions.CancelledError",
    )


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_handler_cannot_end_the_loop(loop, error):
    async def handler(context):
        if context.id == 1:
            raise error

    failure, success = loop.run(handler, 2)

    assert failure.outcome == Outcome.FAILED
    assert success == Success(2, 102, None)
    assert loop.stuck.empty()


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_error_that_cannot_be_examined_is_a_failure_like_any_other(loop, kind):
    async def handler():
        raise HOSTILE[kind]()

    (ending,) = loop.run(handler)

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, True)
    assert ending.error_message


def test_a_result_that_cannot_be_kept_does_not_undo_the_success(loop):
    async def handler():
        return NoText()

    assert loop.run(handler) == [Success(1, 101, None)]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("signal", [signals.job_started, signals.job_finished])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_receiver_that_raises_does_no_harm(loop, signal, error, is_async):
    def receiver(**kwargs):
        raise error("reporter is down")

    async def coroutine(**kwargs):
        raise error("reporter is down")

    async def handler():
        return "done"

    chosen = coroutine if is_async else receiver
    signal.connect(chosen)
    try:
        outcomes = loop.run(handler)
    finally:
        signal.disconnect(chosen)

    assert outcomes == [Success(1, 101, '"done"')]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_neither_does_a_log_that_raises(loop, error):
    async def handler():
        return "done"

    with hostile_log(error):
        outcomes = loop.run(handler)

    assert outcomes == [Success(1, 101, '"done"')]


def test_neither_can_a_task_that_it_has_started(loop, caplog):
    async def child():
        raise SystemExit(1)

    async def handler():
        task = asyncio.ensure_future(child())
        await asyncio.wait([task])
        return "went on"

    (success,) = loop.run(handler)

    assert success.result == '"went on"'
    assert "An exception came out of the event loop" in caplog.text
    assert len(loop.run(crowd_of(1))) == 1


def test_a_handler_that_blocks_the_loop_is_named(loop, caplog):
    gate = threading.Event()

    async def handler():
        gate.wait(PATIENCE)

    with caplog.at_level(logging.WARNING):
        loop.submit(handler)
        wait_until(lambda: "The event loop is blocked" in caplog.text, "somebody notices")
    gate.set()

    assert len(loop.outcomes(1)) == 1
    assert "id=1 name=test_a_handler_that_blocks_the_loop_is_named" in caplog.text
    assert "gate.wait(PATIENCE)" in caplog.text
    assert len(loop.run(crowd_of(1))) == 1


def test_a_timeout_is_noticed_while_the_loop_is_blocked(make_loop):
    loop = make_loop(grace=0.01)
    gate = threading.Event()

    async def handler():
        gate.wait(PATIENCE)

    (attempt,) = loop.submit(handler, timeout=timedelta(milliseconds=20))

    assert loop.overdue.get(timeout=PATIENCE) is attempt
    assert "gate.wait(PATIENCE)" in loop.pool.write_off(attempt)
    gate.set()


def test_a_loop_that_is_blocked_for_too_long_is_given_up(make_loop):
    loop = make_loop(patience=0.01)
    gate = threading.Event()

    async def handler():
        gate.wait(PATIENCE)

    (attempt,) = loop.submit(handler)

    assert loop.stuck.get(timeout=PATIENCE) is attempt
    gate.set()


@pytest.fixture
def full(make_loop):
    """Return a loop of two places, five attempts whose handlers wait, and their gate."""
    loop = make_loop(size=2)
    gate = asyncio.Event()

    async def handler():
        await gate.wait()

    attempts = loop.submit(handler, 5)
    wait_until(lambda: len(loop.pool.running()) == 2, "the first begin")
    return loop, attempts, gate


def test_what_has_no_place_can_be_taken_back(full):
    loop, attempts, gate = full

    assert loop.pool.take_back() == attempts[2:]
    loop.pool.call(gate.set)

    assert [outcome.id for outcome in loop.outcomes(2)] == [1, 2]


def test_what_waits_for_too_long_can_be_taken_back(full):
    loop, attempts, gate = full

    assert loop.pool.take_back_ahead(PATIENCE) == []
    assert loop.pool.take_back_ahead(0) == attempts[2:]
    loop.pool.call(gate.set)

    assert [outcome.id for outcome in loop.outcomes(2)] == [1, 2]
    assert loop.pool.take_back_ahead(0) == []


def test_handlers_are_cancelled_when_the_worker_stops_and_their_jobs_given_back(loop):
    begun, cleaned = threading.Event(), threading.Event()

    async def handler():
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            cleaned.set()

    loop.submit(handler)
    assert begun.wait(PATIENCE)
    loop.stopping.set()

    loop.pool.stop()

    assert cleaned.is_set()
    assert loop.outcomes(1)[0].outcome == Outcome.RELEASED
    assert not loop.pool.is_busy


class TestIsolation:
    """Nothing of a handler is left to another."""

    def test_context_variables(self, make_loop):
        loop = make_loop(size=1)
        variable = ContextVar("variable", default="clean")

        async def handler():
            before = variable.get()
            variable.set("dirty")
            await asyncio.sleep(0)
            return before

        assert [outcome.result for outcome in loop.run(handler, 3)] == ['"clean"'] * 3

    def test_language_and_time_zone(self, loop):
        crowd = Crowd(2)

        async def handler(context):
            if context.id == 1:
                translation.activate("de")
                timezone.activate("Europe/Berlin")
            # Both run now.
            await crowd.handler()
            in_thread = await sync_to_async(translation.get_language)()
            return [translation.get_language(), in_thread, timezone.get_current_timezone_name()]

        german, neutral = loop.run(handler, 2)

        assert german.result == '["de","de","Europe/Berlin"]'
        assert neutral.result == '["en-us","en-us","UTC"]'


@pytest.mark.usefixtures("tables")
class TestDatabase:
    """Django's ORM in handlers of the loop."""

    def test_handlers_may_use_its_async_methods(self, loop):
        async def handler(context):
            await Group.objects.acreate(name=f"group {context.id}")
            return await Group.objects.filter(name=f"group {context.id}").acount()

        assert [outcome.result for outcome in loop.run(handler, 20)] == ["1"] * 20
        assert Group.objects.count() == 20

    def test_all_of_them_share_a_few_connections(self, make_loop):
        loop = make_loop(threads=3)
        crowd = Crowd(60)

        def backend():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                return cursor.fetchone()[0]

        async def handler():
            first = await sync_to_async(backend)()
            await crowd.handler()
            return [first, await sync_to_async(backend)()]

        outcomes = loop.run(handler, 60)

        pairs = [json.loads(outcome.result) for outcome in outcomes]
        assert all(first == second for first, second in pairs)
        assert len({first for first, _ in pairs}) == 3

    def test_no_connection_is_left_open_that_django_would_close(self, loop, connection):
        async def handler():
            await Group.objects.acount()

        assert len(loop.run(handler, 10)) == 10

        wait_until(lambda: others(connection) == 0, "the connections are closed")

    def test_neither_is_one_of_another_thread(self, loop, connection):
        async def handler():
            await asyncio.to_thread(Group.objects.count)
            return await sync_to_async(Group.objects.count, thread_sensitive=False)()

        assert [outcome.result for outcome in loop.run(handler, 10)] == ["0"] * 10

        wait_until(lambda: others(connection) == 0, "the connections are closed")

    def test_a_transaction_left_open_is_undone(self, make_loop, connection):
        loop = make_loop(size=1, threads=1)

        def leave_open():
            transaction.atomic().__enter__()
            Group.objects.create(name="left open")

        async def handler():
            await sync_to_async(leave_open)()

        loop.run(handler)

        wait_until(lambda: others(connection) == 0, "the transaction is undone")

        async def count():
            return await Group.objects.acount()

        assert loop.run(count)[0].result == "0"

    def test_receivers_of_signals_may_use_it(self, loop):
        heard = []

        def receiver(sender, context, **kwargs):
            heard.append((context.id, Group.objects.count()))

        async def async_receiver(sender, context, **kwargs):
            heard.append((context.id, await Group.objects.acount()))

        async def handler():
            raise ValueError("no")

        told = [signals.job_started, signals.job_finished, signals.job_failed]
        with connected(told, receiver), connected(told, async_receiver):
            loop.run(handler)

        assert heard == [(1, 0)] * 6

    def test_so_may_those_of_failures_alone(self, loop):
        heard = []

        async def receiver(sender, error, **kwargs):
            heard.append((str(error), await Group.objects.acount()))

        async def handler():
            raise ValueError("no")

        with connected([signals.job_failed], receiver):
            loop.run(handler)

        assert heard == [("no", 0)]


@contextmanager
def connected(signals, receiver):
    for signal in signals:
        signal.connect(receiver)
    yield
    for signal in signals:
        signal.disconnect(receiver)


def others(connection):
    """Return how many connections of Django there are."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
            AND pid <> pg_backend_pid()
            AND query LIKE '%auth_group%'
    """
    return connection.execute(query).fetchone()[0]
