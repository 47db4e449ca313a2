"""What can be a handler, and how its arguments are bound."""

from __future__ import annotations

import dataclasses
import functools
from datetime import timedelta

import pydantic
import pytest

import django_pgjobs
from django_pgjobs import JobContext
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.exceptions import InvalidHandler, InvalidPayload


def handler(left, right=2):
    pass


def define(function=handler, **options):
    return JobDefinition(**{"name": "x", "function": function, **options})


@pytest.fixture
def refused():
    """Return a function that returns why a definition is refused."""

    def refused(function=handler, **options):
        with pytest.raises(InvalidHandler) as caught:
            define(function, **options)
        return str(caught.value)

    return refused


# Names and options


@pytest.mark.parametrize("name", ["a", "a" * 255, "é" * 127, "shop.jobs.send receipt", "<b>"])
def test_a_name_is_any_text_that_can_be_stored(name):
    assert define(name=name).name == name


@pytest.mark.parametrize("name", ["", "a" * 256, "é" * 128, "a\x00", "\ud800", 7, None])
def test_a_name_that_cannot_be_stored_is_refused(refused, name):
    message = refused(name=name)

    assert message == f"{name!r}: a name must be text of 1 to 255 bytes without NUL."


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        (
            "queue",
            "two words",
            "queue must be 1 to 63 letters, digits, '_', '.' or '-', and begin with a letter or "
            "digit, not 'two words'.",
        ),
        ("queue", "", "queue must be"),
        ("queue", "q" * 64, "queue must be"),
        ("queue", "-q", "queue must be"),
        ("queue", "q\n", "queue must be"),
        ("queue", b"q", "queue must be"),
        ("priority", 32_768, "priority must be a whole number from -32767 to 32767, not 32768."),
        ("priority", -32_768, "priority must be"),
        ("priority", 1.0, "priority must be"),
        ("priority", True, "priority must be"),
        ("max_attempts", 0, "max_attempts must be 1 to 10000, not 0."),
        ("max_attempts", 10_001, "max_attempts must be"),
        ("max_attempts", "3", "max_attempts must be"),
        ("timeout", 30, "timeout must be a timedelta above zero, not 30."),
        ("timeout", timedelta(0), "timeout must be"),
        ("payload_version", 0, "payload_version must be 1 to 32767, not 0."),
        ("payload_version", 32_768, "payload_version must be"),
        ("payload_version", True, "payload_version must be"),
        ("payload_version", 1.0, "payload_version must be"),
        ("schema", dict, "schema must be a pydantic model or a dataclass, not <class 'dict'>."),
        ("schema", "Order", "schema must be"),
        ("pool", "gevent", "pool must be one of 'threads', 'async', 'processes', not 'gevent'."),
        ("pool", "async", "pool='async' needs a handler defined with async def"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_an_option_that_makes_no_sense_is_refused(refused, option, value, problem):
    message = refused(**{option: value})

    assert message.startswith(f"'x': {problem}")


def test_the_bounds_of_options_are_accepted():
    definition = define(
        queue="Q" + "-" * 62,
        priority=-32_767,
        max_attempts=10_000,
        timeout=timedelta(microseconds=1),
        payload_version=32_767,
    )

    assert (definition.priority, definition.max_attempts) == (-32_767, 10_000)


# Functions


class Sender:
    def method(self, order_id):
        pass

    @classmethod
    def of_class(cls, order_id):
        pass

    @staticmethod
    def static(order_id):
        pass

    def __call__(self, order_id):
        pass


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(Sender, id="class"),
        pytest.param(Sender(), id="instance"),
        pytest.param(Sender().method, id="bound method"),
        pytest.param(Sender.of_class, id="class method"),
        pytest.param(lambda: None, id="lambda"),
        pytest.param(functools.partial(handler, 1), id="partial"),
        pytest.param(len, id="builtin"),
        pytest.param("handler", id="text"),
        pytest.param(None, id="none"),
    ],
)
def test_what_is_no_function_is_refused(refused, function):
    message = refused(function)

    assert message == (
        f"'x': a handler must be a function defined with def or async def, not {function!r}."
    )


@pytest.mark.parametrize("function", [Sender.method, Sender.of_class.__func__])
def test_a_method_is_refused(refused, function):
    message = refused(function)

    assert message == (
        "'x': a handler must not be a method; a worker has nothing to call it on. "
        "Declare a function."
    )


def test_a_function_in_the_namespace_of_a_class_is_accepted():
    assert define(Sender.static).bind((), {"order_id": 1}) == {"order_id": 1}


def test_a_generator_is_refused(refused):
    def generator():
        yield

    async def async_generator():
        yield

    message = "'x': a handler must not be a generator; its body would never run."
    assert refused(generator) == message
    assert refused(async_generator) == message


def test_a_signature_whose_arguments_have_no_names_is_refused(refused):
    def positional(order_id, /):
        pass

    def variable(*orders):
        pass

    assert refused(positional) == (
        "'x': the parameter 'order_id' is positional-only, but arguments are stored and passed by "
        "name. Remove the '/'."
    )
    assert refused(variable) == (
        "'x': *orders has no names to store its arguments by. Declare a parameter that takes a "
        "list."
    )


def test_a_coroutine_function_is_known_as_one():
    async def coroutine():
        pass

    assert define(coroutine).is_async
    assert not define(handler).is_async


# Context


def by_name(context, order_id):
    pass


def by_text(ctx: JobContext, order_id):
    pass


def by_dotted_text(ctx: django_pgjobs.JobContext, order_id):
    pass


def by_quoted_text(ctx: "JobContext", order_id):  # noqa: UP037
    pass


def positional_only(ctx: JobContext, /, order_id):
    pass


def by_class(ctx, order_id):
    pass


by_class.__annotations__["ctx"] = JobContext


@pytest.mark.parametrize(
    "function",
    [by_name, by_text, by_dotted_text, by_quoted_text, by_class, positional_only],
    ids=lambda function: function.__name__,
)
def test_the_context_is_known_by_its_name_or_its_annotation(function):
    definition = define(function)

    assert definition.takes_context
    assert definition.bind((7,), {}) == {"order_id": 7}


def test_a_handler_without_a_context_gets_none():
    def without_parameters():
        pass

    assert not define(handler).takes_context
    assert not define(without_parameters).takes_context


def test_a_context_that_a_worker_could_not_pass_is_refused(refused):
    def second(order_id, context):
        pass

    def keyword(*, context: JobContext):
        pass

    def annotated(order_id, ctx: JobContext):
        pass

    def keywords(**context):
        pass

    message = "'x': the context must be the first parameter, and passed by position."
    assert [refused(function) for function in (second, keyword, annotated, keywords)] == (
        [message] * 4
    )


def test_the_context_cannot_be_enqueued():
    def takes_anything(ctx: JobContext, **options):
        pass

    with pytest.raises(InvalidPayload) as caught:
        define(takes_anything).bind((), {"ctx": 1})

    assert str(caught.value) == "The argument ctx of x is the context, which the worker passes."
    assert caught.value.argument == "ctx"


# Binding


@pytest.mark.parametrize(
    ("args", "kwargs", "arguments"),
    [
        ((1,), {}, {"left": 1}),
        ((1, 3), {}, {"left": 1, "right": 3}),
        ((), {"right": 3, "left": 1}, {"left": 1, "right": 3}),
    ],
    ids=["default", "by position", "by name"],
)
def test_arguments_are_kept_by_name_and_defaults_left_to_the_handler(args, kwargs, arguments):
    assert define().bind(args, kwargs) == arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing a required argument: 'left'."),
        ((1, 2, 3), {}, "too many positional arguments."),
        ((1,), {"centre": 1}, "got an unexpected keyword argument 'centre'."),
        ((1,), {"left": 1}, "multiple values for argument 'left'."),
    ],
    ids=["missing", "too many", "unknown", "twice"],
)
def test_arguments_that_do_not_fit_are_refused(args, kwargs, problem):
    with pytest.raises(InvalidPayload) as caught:
        define().bind(args, kwargs)

    assert str(caught.value) == f"The arguments do not fit x(left, right=2): {problem}"


def test_options_of_any_name_are_kept_beside_the_others():
    def collect(first, **options):
        pass

    arguments = define(collect).bind((1,), {"options": 2, "self": 3})

    assert arguments == {"first": 1, "options": 2, "self": 3}


# Schemas


class Order(pydantic.BaseModel):
    number: int
    lines: list[dict[str, int]] = []
    note: str = "none"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x is negative.")


def take_order(number, lines, note="none"):
    pass


def take_number(number):
    pass


def take_point(x, y):
    pass


def test_a_pydantic_model_converts_and_completes_the_arguments():
    definition = define(take_order, schema=Order)

    arguments = definition.bind((), {"number": "7", "lines": [{"a": "1"}]})

    assert arguments == {"number": 7, "lines": [{"a": 1}], "note": "none"}


def test_a_dataclass_completes_the_arguments():
    assert define(take_point, schema=Point).bind((1, 2), {}) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("function", "schema", "args", "start"),
    [
        (
            take_order,
            Order,
            ("x", []),
            "The arguments of x do not satisfy Order: 1 validation err",
        ),
        (take_point, Point, (-1, 0), "The arguments of x do not satisfy Point: x is negative."),
    ],
    ids=["pydantic", "dataclass"],
)
def test_arguments_that_do_not_satisfy_the_schema_are_refused(function, schema, args, start):
    with pytest.raises(InvalidPayload) as caught:
        define(function, schema=schema).bind(args, {})

    assert str(caught.value).startswith(start)
    assert caught.value.__cause__ is not None


def test_a_schema_with_more_fields_than_the_handler_takes_is_refused():
    with pytest.raises(InvalidPayload) as caught:
        define(take_number, schema=Order).bind((7,), {})

    assert str(caught.value) == (
        "What the schema of x returns does not fit x(number): "
        "got an unexpected keyword argument 'lines'."
    )
