"""From a claimed job to its outcome."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.utils import timezone, translation

from django_pgjobs import Backoff, Cancel, JobContext, Retry, Snooze, signals
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.pools import THREADS
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.exceptions import InvalidPayload
from django_pgjobs.states import Outcome
from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.finish import Ending, Success
from django_pgjobs.worker import hygiene
from django_pgjobs.worker.attempts import Attempt
from django_pgjobs.worker.execution import Execution
from django_pgjobs.worker.measuring import RunTime
from django_pgjobs.worker.timeouts import DeadlineWatch
from tests.worker.hostile import HOSTILE, NoText, hostile_log

#: Seconds that no test waits.
PATIENCE = 60.0


@pytest.fixture
def run():
    """Return a function that carries one attempt of a handler to its outcome."""
    watch = DeadlineWatch()

    def run(function, payload="{}", *, claims=1, attempt=1, **options):
        registry = Registry()
        if function is not None:
            registry.add(JobDefinition(name="tests.job", function=function, **options))
        execution = Execution(
            registry=registry,
            run_time=RunTime(),
            watch=watch,
            grace=timedelta(seconds=10),
            on_overdue=lambda attempt: None,
            max_result_bytes=1000,
            alias="default",
            worker_id="worker-a",
        )
        return execution.run(attempt_of(payload, claims=claims, attempt=attempt))

    yield run
    watch.stop()


def attempt_of(payload="{}", *, claims=1, attempt=1):
    job = ClaimedJob(
        id=7,
        job_name="tests.job",
        tenant_id=0,
        queue_name="default",
        priority=0,
        claim_order=0,
        fence_token=99,
        attempt=attempt,
        max_attempts=3,
        claims=claims,
        payload=payload,
        payload_version=1,
        meta=None,
    )
    context = JobContext(id=7, name="tests.job", claims=claims, attempt=attempt, max_attempts=3)
    return Attempt(job, context, THREADS)


def raises(error):
    def handler():
        raise error

    return handler


def test_what_a_handler_returns_is_its_result(run):
    assert run(lambda_free_return) == Success(7, 99, '{"total":3}')


def lambda_free_return():
    return {"total": 3}


def test_no_result_is_none(run):
    def handler():
        pass

    assert run(handler) == Success(7, 99, None)


def test_arguments_come_as_they_were_enqueued(run):
    seen = {}

    def handler(**kwargs):
        seen.update(kwargs)

    run(handler, '{"amount":{"$decimal":"1.50"},"lines":[1,2]}')

    assert repr(seen["amount"]) == "Decimal('1.50')"
    assert seen["lines"] == [1, 2]


def test_a_coroutine_is_awaited(run):
    async def handler(number):
        return number + 1

    assert run(handler, '{"number":1}') == Success(7, 99, "2")


def test_a_coroutine_behind_a_plain_decorator_is_awaited(run):
    async def work():
        return 5

    def handler():
        return work()

    assert run(handler) == Success(7, 99, "5")


def test_the_context_comes_first(run):
    def handler(context, number):
        return [context.id, number]

    assert run(handler, '{"number":1}') == Success(7, 99, "[7,1]")


def test_an_exception_fails_the_attempt_and_is_kept(run):
    ending = run(raises(ValueError("no such order")))

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, True)
    assert ending.error_class == "builtins.ValueError"
    assert ending.error_message == "no such order"
    assert "in handler" in ending.traceback
    assert len(ending.fingerprint) == 16


def test_a_handler_may_choose_its_delay(run):
    ending = run(raises(Retry("later", delay=timedelta(minutes=1))))

    assert (ending.outcome, ending.delay) == (Outcome.FAILED, timedelta(minutes=1))
    assert ending.error_message == "later"


def test_a_job_decides_which_errors_are_final(run):
    ending = run(raises(TimeoutError("no")), discard_on=OSError)

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, False)


def test_a_job_decides_how_long_it_waits(run):
    minute = timedelta(minutes=1)

    doubling = run(raises(ValueError()), backoff=Backoff(base=minute, cap=2 * minute))
    fixed = run(raises(ValueError()), backoff=minute)
    own = run(raises(ValueError(3)), backoff=lambda attempt, error: attempt * 3 * minute)
    asked = run(raises(Retry(delay=timedelta(0))), backoff=minute)

    assert (doubling.delay, doubling.backoff_base, doubling.backoff_cap) == (
        None,
        minute,
        2 * minute,
    )
    assert (fixed.delay, own.delay, asked.delay) == (minute, 3 * minute, timedelta(0))
    assert run(raises(Retry()), backoff=minute).delay == minute


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit()])
def test_a_handler_that_wants_to_end_its_thread_only_fails(run, error):
    ending = run(raises(error))

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, True)
    assert ending.error_class.endswith(type(error).__name__)


def test_a_handler_may_snooze(run):
    ending = run(raises(Snooze(timedelta(hours=1))))

    assert (ending.outcome, ending.delay) == (Outcome.SNOOZED, timedelta(hours=1))


def test_a_handler_may_cancel_its_job(run):
    ending = run(raises(Cancel("not wanted any more")))

    assert (ending.outcome, ending.error_message) == (Outcome.CANCELLED, "not wanted any more")


def test_a_handler_knows_how_much_time_it_has_left(run):
    def handler(context):
        return context.time_left.total_seconds()

    outcome = run(handler, timeout=timedelta(minutes=1))

    assert 0 < float(outcome.result) <= 60


def test_without_a_timeout_there_is_no_time_left(run):
    def handler(context):
        return [context.time_left, context.is_cancelled, context.is_stopping]

    assert run(handler).result == "[null,false,false]"


def test_a_handler_that_runs_too_long_times_out(run):
    def handler():
        while True:
            pass

    ending = run(handler, timeout=timedelta(milliseconds=20))

    assert ending.outcome == Outcome.TIMEOUT
    assert ending.error_class == "django_pgjobs.exceptions.JobTimeout"


def test_a_coroutine_in_a_thread_that_runs_too_long_is_cancelled(run):
    cleaned = []

    async def handler():
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            cleaned.append(True)

    ending = run(handler, timeout=timedelta(milliseconds=20))

    assert (ending.outcome, cleaned) == (Outcome.TIMEOUT, [True])
    assert ending.error_class == "django_pgjobs.exceptions.JobTimeout"
    # Where it was when its time was up.
    assert "await asyncio.sleep(PATIENCE)" in ending.traceback


def test_a_timeout_of_the_handlers_own_is_a_failure(run):
    async def handler():
        async with asyncio.timeout(0.001):
            await asyncio.sleep(PATIENCE)

    ending = run(handler, timeout=timedelta(minutes=1))

    assert (ending.outcome, ending.error_class) == (Outcome.FAILED, "builtins.TimeoutError")


@pytest.mark.parametrize(
    "payload", ["[]", '{"x":{"$unknown":1}}', '{"x":{"$date":"never"}}', "not json"]
)
def test_what_cannot_be_decoded_is_not_tried_again(run, payload):
    def handler(x):
        raise AssertionError("must not run")

    ending = run(handler, payload)

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, False)
    assert ending.error_class == "django_pgjobs.exceptions.UndecodablePayload"


def test_arguments_that_do_not_fit_fail_the_attempt(run):
    def handler(order_id):
        raise AssertionError("must not run")

    ending = run(handler, '{"user_id":1}')

    assert (ending.outcome, ending.error_class) == (Outcome.FAILED, "builtins.TypeError")


def test_an_unknown_job_goes_back_for_a_newer_worker(run, caplog):
    ending = run(None)

    assert (ending.outcome, ending.delay) == (Outcome.RELEASED, timedelta(seconds=15))
    assert "No job named 'tests.job' is registered." in caplog.text


def test_an_unknown_job_comes_back_less_and_less_often(run):
    assert run(None, claims=2).delay == timedelta(seconds=30)
    assert run(None, claims=10_000).delay == timedelta(minutes=10)


@pytest.mark.parametrize("result", [{1, 2}, float("nan"), "\x00", "\ud800", "x" * 2000, object()])
def test_a_result_that_cannot_be_kept_does_not_undo_the_success(run, result, caplog):
    def handler():
        return result

    with caplog.at_level(logging.ERROR):
        outcome = run(handler)

    assert outcome == Success(7, 99, None)
    assert "The result was not kept" in caplog.text


def test_an_error_that_cannot_be_shown_ends_its_attempt_all_the_same(run):
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError("no")

    ending = run(raises(Hostile()))

    assert ending.outcome == Outcome.FAILED
    assert ending.error_message == "<str() of this Hostile raised RuntimeError>"


def test_neither_does_one_whose_methods_exit(run):
    def handler():
        return NoText()

    assert run(handler) == Success(7, 99, None)


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_error_that_cannot_be_examined_is_a_failure_like_any_other(run, kind):
    ending = run(raises(HOSTILE[kind]()))

    assert (ending.outcome, ending.is_retryable) == (Outcome.FAILED, True)
    assert ending.error_message


@pytest.mark.parametrize("kind", HOSTILE)
def test_it_does_no_harm_where_reporters_of_errors_listen(run, kind):
    def receiver(**kwargs):
        pass

    signals.job_failed.connect(receiver)
    try:
        ending = run(raises(HOSTILE[kind]()))
    finally:
        signals.job_failed.disconnect(receiver)

    assert ending.outcome == Outcome.FAILED


def test_a_retry_that_does_not_say_when_comes_back_as_usual(run):
    class ForgetfulRetry(Retry):
        def __init__(self):
            pass

    ending = run(raises(ForgetfulRetry()))

    assert ending.outcome == Outcome.FAILED
    assert ending.error_class.endswith("ForgetfulRetry")
    assert ending.delay is None


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("signal", [signals.job_started, signals.job_finished])
def test_a_receiver_that_raises_does_no_harm(run, signal, error):
    def receiver(**kwargs):
        raise error("reporter is down")

    signal.connect(receiver)
    try:
        outcome = run(lambda_free_return)
    finally:
        signal.disconnect(receiver)

    assert isinstance(outcome, Success)


def lambda_free_object():
    return object()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
@pytest.mark.parametrize("function", [lambda_free_return, lambda_free_object])
def test_a_log_that_raises_does_no_harm(run, function, error):
    with hostile_log(error):
        outcome = run(function)

    assert isinstance(outcome, Success)


def test_nor_does_it_to_an_unknown_job(run):
    with hostile_log(SystemExit):
        ending = run(None)

    assert ending.outcome == Outcome.RELEASED


def test_nor_to_a_thread_that_is_cleaned_in_vain(monkeypatch):
    def fail(**kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr(hygiene.connections, "all", fail)

    with hostile_log(SystemExit):
        hygiene.close_connections()


def test_a_receiver_that_hangs_makes_its_attempt_overdue():
    overdue, watch, registry = threading.Event(), DeadlineWatch(), Registry()
    registry.add(
        JobDefinition(
            name="tests.job", function=lambda_free_return, timeout=timedelta(seconds=0.05)
        )
    )
    execution = Execution(
        registry=registry,
        run_time=RunTime(),
        watch=watch,
        grace=timedelta(seconds=0.05),
        on_overdue=lambda attempt: overdue.set(),
        max_result_bytes=1000,
        alias="default",
        worker_id="worker-a",
    )

    def receiver(**kwargs):
        overdue.wait(10)

    signals.job_finished.connect(receiver)
    try:
        outcome = execution.run(attempt_of())
    finally:
        signals.job_finished.disconnect(receiver)
        watch.stop()

    assert overdue.is_set()
    # Whose attempt it is by then, the worker decides.
    assert isinstance(outcome, Success)


def test_receivers_hear_of_the_error(run):
    heard = []

    def receiver(sender, outcome, error, **kwargs):
        heard.append((sender.name, outcome, error))

    error = ValueError("no")
    signals.job_finished.connect(receiver)
    try:
        run(raises(error))
    finally:
        signals.job_finished.disconnect(receiver)

    assert heard == [("tests.job", Outcome.FAILED, error)]


@pytest.mark.parametrize(
    ("error", "attempt", "will_retry"),
    [(ValueError("no"), 1, True), (ValueError("no"), 3, False), (InvalidPayload("no"), 1, False)],
)
def test_reporters_of_errors_hear_of_failures(run, error, attempt, will_retry):
    heard = []

    def receiver(sender, context, outcome, error, will_retry, **kwargs):
        heard.append((sender.name, context.id, outcome, error, will_retry))
        raise RuntimeError("reporter is down")

    signals.job_failed.connect(receiver)
    try:
        ending = run(raises(error), attempt=attempt)
    finally:
        signals.job_failed.disconnect(receiver)

    assert heard == [("tests.job", 7, Outcome.FAILED, error, will_retry)]
    assert ending.outcome == Outcome.FAILED


@pytest.mark.parametrize("error", [Snooze(timedelta(0)), Cancel("no")])
def test_reporters_of_errors_do_not_hear_of_what_is_no_failure(run, error):
    heard = []

    def receiver(**kwargs):
        heard.append(kwargs)

    signals.job_failed.connect(receiver)
    try:
        run(raises(error))
        run(lambda_free_return)
    finally:
        signals.job_failed.disconnect(receiver)

    assert heard == []


def test_a_handler_leaves_neither_language_nor_zone_behind(run):
    def handler():
        translation.activate("de")
        timezone.activate("Europe/Berlin")

    run(handler)

    assert translation.get_language() != "de"
    assert timezone.get_current_timezone_name() == "UTC"


def test_a_handler_leaves_no_context_variable_behind(run):
    variable = ContextVar("variable", default="clean")

    def handler():
        before = variable.get()
        variable.set("dirty")
        return before

    assert [run(handler).result, run(handler).result] == ['"clean"', '"clean"']


def leave_autocommit_off(connection):
    connection.set_autocommit(False)


def leave_a_block(connection):
    transaction.atomic().__enter__()


def leave_a_closed_block(connection):
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    connection.close()


@pytest.mark.parametrize("leave_open", [leave_autocommit_off, leave_a_block])
def test_a_transaction_left_open_is_undone(run, tables, leave_open):
    def handler():
        leave_open(connections["default"])
        with connections["default"].cursor() as cursor:
            cursor.execute("INSERT INTO queue_config (queue_name) VALUES ('left-open')")

    outcome = run(handler)

    assert isinstance(outcome, Success)
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM queue_config")
        assert cursor.fetchone() == (0,)
    assert connections["default"].get_autocommit()
    with transaction.atomic():
        pass


def test_a_connection_closed_in_a_transaction_is_made_anew(run, tables):
    def leave():
        leave_a_closed_block(connections["default"])

    def handler():
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 5")
            return cursor.fetchone()[0]

    run(leave)

    assert run(handler).result == "5"


def test_a_handler_without_queries_needs_no_connection(run, tables):
    """Also where an earlier one in its thread had one, which was closed after it."""
    connections["default"].close()

    run(lambda_free_return)

    assert connections["default"].connection is None


def test_payloads_are_not_logged(run, caplog):
    def handler(card):
        raise ValueError("refused")

    with caplog.at_level(logging.DEBUG, logger="django_pgjobs"):
        ending = run(handler, '{"card":"4111111111111111"}')

    assert isinstance(ending, Ending)
    assert "job failed: id=7 name=tests.job" in caplog.text
    assert "4111" not in caplog.text
