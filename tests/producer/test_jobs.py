"""``@job``, and what it makes of a function."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.db import transaction

from django_pgjobs import EnqueuedJob, Job, enqueue, enqueue_many, job
from django_pgjobs.definitions.registry import registry
from django_pgjobs.exceptions import (
    DuplicateJobName,
    InvalidHandler,
    InvalidOption,
    InvalidPayload,
    UnknownJob,
)
from django_pgjobs.models import ActiveJob
from django_pgjobs.states import JobStatus
from tests.app import jobs


@pytest.fixture
def own_registry(monkeypatch):
    """Forget what a test declares."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))


@pytest.fixture
def declare(own_registry):
    """Return ``@job``, whose declarations are forgotten after the test."""
    return job


# Declaring


def test_a_bare_decorator_names_the_job_after_the_path_of_the_function(declare):
    @declare
    def send():
        """Send it."""

    assert isinstance(send, Job)
    assert send.name == send.definition.name == registry.get(send.name).name
    assert send.name == (
        f"{__name__}.test_a_bare_decorator_names_the_job_after_the_path_of_the_function"
        ".<locals>.send"
    )


def test_a_decorator_with_options_keeps_them(declare):
    @declare(
        name="mail.send",
        queue="mail",
        priority=3,
        max_attempts=4,
        timeout=timedelta(seconds=5),
        payload_version=6,
    )
    def send():
        pass

    definition = registry.get("mail.send")
    assert (definition.queue, definition.priority, definition.max_attempts) == ("mail", 3, 4)
    assert (definition.timeout, definition.payload_version) == (timedelta(seconds=5), 6)


def test_a_decorator_with_empty_parentheses_is_a_bare_one(declare):
    @declare()
    def send():
        pass

    assert send.name.endswith(".send")


def test_the_options_of_a_decorator_may_be_used_again(declare):
    urgent = declare(priority=9)

    @urgent
    def first():
        pass

    @urgent
    def second():
        pass

    assert [first.definition.priority, second.definition.priority] == [9, 9]
    assert first.name != second.name


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("max_atempts", "Did you mean 'max_attempts'?"),
        ("zzz", "Known: name, queue, priority, "),
    ],
)
def test_an_unknown_option_is_answered_with_a_guess(declare, option, answer):
    with pytest.raises(InvalidHandler) as caught:
        declare(**{option: 3})(lambda: None)

    assert str(caught.value).startswith(f"@job has no option {option!r}. {answer}")


def test_an_empty_name_is_refused(declare):
    def send():
        pass

    with pytest.raises(InvalidHandler, match="a name must be text of 1 to 255 bytes"):
        declare(name="")(send)


def test_two_jobs_of_one_name_are_refused(declare):
    def another():
        pass

    with pytest.raises(DuplicateJobName) as caught:
        declare(name="tests.noop")(another)

    assert str(caught.value).startswith(
        "Two functions are declared as job 'tests.noop': tests.app.jobs.noop (line "
    )


def test_what_is_already_a_job_is_no_function(declare):
    with pytest.raises(InvalidHandler, match="a handler must be a function defined with def"):
        declare(name="twice")(jobs.noop)


# A declared job


def test_calling_a_job_calls_the_function():
    assert jobs.add(2, right=3) == 5
    assert async_to_sync(jobs.echo_async)(7) == 7
    assert not iscoroutinefunction(jobs.add)


def test_a_job_looks_like_its_function():
    assert repr(jobs.add) == "<Job tests.add>"
    assert jobs.add.__doc__ == "Return a sum."
    assert jobs.add.__module__ == "tests.app.jobs"
    assert list(inspect.signature(jobs.add).parameters) == ["left", "right"]


def test_attributes_of_a_function_do_not_hide_those_of_the_job(declare):
    def send():
        pass

    send.enqueue = send.options = send.definition = "mine"

    assert declare(send).definition.function is send
    assert callable(declare(send).enqueue)
    assert declare(send).options.tenant == 0


# Enqueueing


@pytest.mark.django_db
def test_a_job_is_written_as_declared():
    enqueued = jobs.send.enqueue("ada@example.org", subject="Hello")

    row = ActiveJob.objects.get()
    assert enqueued == EnqueuedJob(row.id, "tests.send", created=True)
    assert (row.job_name, row.queue_name, row.priority) == ("tests.send", "mail", 5)
    assert (row.max_attempts, row.payload_version, row.tenant_id) == (7, 2, 0)
    assert (row.status, row.attempt, row.claims) == (JobStatus.PENDING, 0, 0)
    assert row.payload == {"address": "ada@example.org", "subject": "Hello"}
    assert row.scheduled_at == row.created_at
    assert (row.idempotency_key, row.expires_at, row.meta) == (None, None, None)


@pytest.mark.django_db
def test_what_the_declaration_leaves_open_comes_from_the_settings(settings):
    settings.PGJOBS = {"DEFAULT_QUEUE": "general", "DEFAULT_MAX_ATTEMPTS": 9}

    jobs.noop.enqueue()

    row = ActiveJob.objects.get()
    assert (row.queue_name, row.max_attempts) == ("general", 9)


@pytest.mark.django_db
def test_options_go_before_the_declaration():
    jobs.send.using(queue="slow", priority=0, max_attempts=1, tenant=12).using(
        tags=["welcome"], idempotency_key="k"
    ).enqueue("ada@example.org")

    row = ActiveJob.objects.get()
    assert (row.queue_name, row.priority, row.max_attempts) == ("slow", 0, 1)
    assert (row.tenant_id, row.idempotency_key) == (12, "k")
    assert row.meta == {"tags": ["welcome"]}


@pytest.mark.django_db
def test_options_leave_the_job_as_it_was():
    jobs.noop.using(priority=9)

    jobs.noop.enqueue()

    assert ActiveJob.objects.get().priority == 0


@pytest.mark.django_db
def test_a_delay_counts_from_the_clock_of_the_server():
    jobs.noop.using(delay=timedelta(hours=2), expires=timedelta(hours=1)).enqueue()

    row = ActiveJob.objects.get()
    assert row.status == JobStatus.SCHEDULED
    assert row.scheduled_at - row.created_at == timedelta(hours=2)
    assert row.expires_at - row.created_at == timedelta(hours=3)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("offset", "status"),
    [(timedelta(hours=1), JobStatus.SCHEDULED), (timedelta(hours=-1), JobStatus.PENDING)],
    ids=["future", "past"],
)
def test_an_instant_decides_whether_a_job_waits(offset, status):
    from tests.factories import server_now

    at = server_now() + offset

    jobs.noop.using(at=at, expires=at + timedelta(days=1)).enqueue()

    row = ActiveJob.objects.get()
    assert (row.status, row.scheduled_at) == (status, at)
    assert row.expires_at == at + timedelta(days=1)


@pytest.mark.django_db
def test_a_job_is_enqueued_by_its_name():
    enqueued = enqueue("tests.add", {"left": 4}, queue="sums", tenant=3)

    row = ActiveJob.objects.get(pk=enqueued.id)
    assert (row.job_name, row.queue_name, row.tenant_id) == ("tests.add", "sums", 3)
    assert row.payload == {"left": 4}


@pytest.mark.django_db
def test_arguments_may_have_the_names_of_parameters_of_ours():
    arguments = {"self": 1, "name": 2, "arguments": 3, "options": 4, "args": 5, "kwargs": 6}

    jobs.collect.enqueue(**arguments)
    enqueue("tests.collect", arguments)

    assert [row.payload for row in ActiveJob.objects.all()] == [arguments, arguments]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: enqueue("tests.nop"), UnknownJob, "No job named 'tests.nop' is registered. Did"),
        (lambda: enqueue("tests.noop", dealy=1), InvalidOption, "using() has no option 'dealy'."),
        (
            lambda: enqueue("tests.collect", {1: 2}),
            InvalidPayload,
            "The arguments of tests.collect must be a dict with the names of parameters as keys, "
            "not {1: 2}.",
        ),
        (
            lambda: enqueue("tests.collect", [1]),
            InvalidPayload,
            "The arguments of tests.collect must be a dict with the names of parameters as keys, "
            "not [1].",
        ),
        (
            jobs.add.enqueue,
            InvalidPayload,
            "The arguments do not fit tests.add(left: 'int', right: 'int' = 1) -> 'int': "
            "missing a required argument: 'left'.",
        ),
        (
            lambda: enqueue_many([jobs.noop.prepare(), jobs.noop]),
            TypeError,
            "enqueue_many takes what prepare() returns, not <Job tests.noop>.",
        ),
    ],
    ids=["name", "option", "keys", "list", "arguments", "prepared"],
)
def test_a_mistake_is_told_without_a_query(call, error, message):
    """Without the mark of pytest-django a query would be an error."""
    with pytest.raises(error) as caught:
        call()

    assert str(caught.value).startswith(message)


@pytest.mark.django_db(transaction=True)
def test_async_code_enqueues_in_the_transaction_of_the_thread_of_the_orm():
    async def place_order():
        return await jobs.echo.aenqueue(7)

    with transaction.atomic():
        enqueued = async_to_sync(place_order)()
        seen = ActiveJob.objects.get()
        transaction.set_rollback(True)

    assert seen.id == enqueued.id
    assert not ActiveJob.objects.exists()
