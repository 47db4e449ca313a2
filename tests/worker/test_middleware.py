"""Middleware around handlers."""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from datetime import timedelta
from types import ModuleType

import pytest
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured, MiddlewareNotUsed
from django.utils.decorators import (
    async_only_middleware,
    sync_and_async_middleware,
    sync_only_middleware,
)

from django_pgjobs import JobContext, Retry, Snooze
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry
from django_pgjobs.exceptions import JobTimeout
from django_pgjobs.worker.middleware import async_chain, sync_chain

MODULE = "tests_middleware_of_this_test"


@pytest.fixture(params=["sync", "async"])
def run(request, monkeypatch):
    """Return a function that calls a handler through middleware, in a thread or in a loop."""
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)

    def run(result, *factories, arguments=None, is_async=request.param == "async", **options):
        paths = []
        for number, factory in enumerate(factories):
            setattr(module, f"factory_{number}", factory)
            paths.append(f"{MODULE}.factory_{number}")
        registry = Registry()
        handler = handler_of(result, is_async=is_async)
        registry.add(JobDefinition(name="tests.job", function=handler, **options))
        context = JobContext(id=7, name="tests.job", arguments=arguments or {})
        if is_async:
            return asyncio.run(async_chain(paths, registry)(context))
        return sync_chain(paths, registry)(context)

    run.is_async = request.param == "async"
    return run


def handler_of(result, *, is_async):
    """Return a handler that returns or raises ``result``, or what it returns for its arguments."""

    def handler(context, **kwargs):
        value = result(context, **kwargs) if callable(result) else result
        if isinstance(value, BaseException):
            raise value
        return value

    async def async_handler(context, **kwargs):
        value = handler(context, **kwargs)
        return await value if asyncio.iscoroutine(value) else value

    return async_handler if is_async else handler


def marking(mark, *, decorate=sync_and_async_middleware, seen=None):
    """Return middleware that adds marks before and after the result, in its own colour."""

    def factory(get_result):
        async def async_middleware(context):
            if seen is not None:
                seen.append((mark, "async"))
            return f"{mark}({await get_result(context)})"

        def middleware(context):
            if seen is not None:
                seen.append((mark, "sync"))
            return f"{mark}({get_result(context)})"

        return async_middleware if iscoroutinefunction(get_result) else middleware

    return decorate(factory)


def test_no_middleware_is_no_chain():
    assert sync_chain([], Registry()) is None
    assert async_chain([], Registry()) is None


def test_the_first_is_the_outermost(run):
    assert run("x", marking("a"), marking("b")) == "a(b(x))"


def test_that_of_both_colours_takes_the_colour_of_the_handler(run):
    seen = []

    run("x", marking("a", seen=seen), marking("b", seen=seen))

    colour = "async" if run.is_async else "sync"
    assert seen == [("a", colour), ("b", colour)]


def test_that_of_one_colour_is_adapted(run):
    seen = []
    decorators = (sync_only_middleware, async_only_middleware, lambda factory: factory)

    result = run("x", *(marking(f"m{n}", decorate=d, seen=seen) for n, d in enumerate(decorators)))

    assert result == "m0(m1(m2(x)))"
    assert [colour for _, colour in seen] == ["sync", "async", "sync"]


def test_the_worker_warns_of_what_keeps_the_event_loop_waiting(run, caplog):
    run("x", marking("a", decorate=async_only_middleware), marking("b"))
    assert caplog.text == ""

    run("x", marking("a", decorate=sync_only_middleware))

    assert ("is synchronous" in caplog.text) is run.is_async


def test_it_may_answer_instead_of_the_handler(run):
    def factory(get_result):
        return lambda context: "cached"

    assert run(AssertionError("must not run"), factory) == "cached"


def test_it_may_change_the_arguments(run):
    def factory(get_result):
        def middleware(context):
            context.arguments["number"] += 1
            return get_result(context)

        return middleware

    assert run(lambda context, number: number, factory, arguments={"number": 1}) == 2


@pytest.mark.parametrize("error", [Retry("later"), Snooze(timedelta(hours=1)), ValueError("no")])
def test_what_the_handler_raises_goes_through_it(run, error):
    seen = []

    def factory(get_result):
        def middleware(context):
            try:
                return get_result(context)
            except Exception as raised:
                seen.append(raised)
                raise

        return middleware

    with pytest.raises(type(error)) as raised:
        run(error, marking("a"), factory)

    assert raised.value is error
    assert seen == [error]


def test_it_may_make_a_success_of_an_error(run):
    def factory(get_result):
        def middleware(context):
            try:
                return get_result(context)
            except ValueError:
                return "never mind"

        return middleware

    assert run(ValueError("no"), factory) == "never mind"


def test_it_may_raise_itself(run):
    def factory(get_result):
        def middleware(context):
            raise Snooze(timedelta(hours=1))

        return middleware

    with pytest.raises(Snooze):
        run("x", factory)


def test_it_sees_the_timeout_of_a_coroutine(run):
    seen = []

    @async_only_middleware
    def factory(get_result):
        async def middleware(context):
            try:
                return await get_result(context)
            except JobTimeout as error:
                seen.append(error)
                raise

        return middleware

    async def wait():
        await asyncio.sleep(60)

    with pytest.raises(JobTimeout):
        run(
            lambda context: wait(),
            factory,
            is_async=True,
            timeout=timedelta(milliseconds=10),
        )

    assert len(seen) == 1


def test_a_context_variable_reaches_the_handler(run):
    variable = ContextVar("variable", default="unset")

    def factory(get_result):
        def middleware(context):
            variable.set("set")
            return get_result(context)

        return middleware

    assert run(lambda context: variable.get(), factory) == "set"
    # The loop of a test has a context of its own; that of a thread is seen to in Execution.
    variable.set("unset")


def test_one_that_is_not_used_is_left_out(run):
    def unused(get_result):
        raise MiddlewareNotUsed("not here")

    assert run("x", marking("a"), unused, marking("b")) == "a(b(x))"


def test_one_that_makes_nothing_is_an_error(run):
    def forgetful(get_result):
        pass

    with pytest.raises(ImproperlyConfigured, match="returned None when it was given get_result"):
        run("x", forgetful)


def no_colour(get_result):
    return get_result


no_colour.sync_capable = no_colour.async_capable = False


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere.at_all", "names 'nowhere.at_all', which cannot be imported: No module named"),
        ("tests.worker.test_middleware.absent", 'does not define a "absent"'),
        ("tests.worker.test_middleware.MODULE", "and not callable"),
        ("tests.worker.test_middleware.no_colour", "both sync_capable and async_capable"),
    ],
)
def test_a_path_that_leads_to_no_middleware_is_an_error(path, problem):
    for chain in (sync_chain, async_chain):
        with pytest.raises(ImproperlyConfigured, match=problem):
            chain([path], Registry())
