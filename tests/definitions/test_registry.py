"""Definitions are found by name, and a name means one function."""

from __future__ import annotations

from types import FunctionType

import pytest

from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import Registry, registry
from django_pgjobs.exceptions import DuplicateJobName, UnknownJob


def send():
    pass


def post():
    pass


@pytest.fixture
def empty():
    return Registry()


def define(function, name="mail"):
    return JobDefinition(name=name, function=function)


def compile_send():
    """Return a function as an import of its module makes it: compiled anew."""
    namespace = {"__name__": "shop.jobs"}
    exec("def send():\n    pass\n", namespace)  # noqa: S102
    return namespace["send"]


def make_handler(kind):
    def handle():
        return kind

    return handle


def line_of(function):
    return function.__code__.co_firstlineno


def test_a_definition_is_found_by_its_name(empty):
    definition = define(send)

    empty.add(definition)

    assert empty.get("mail") is empty.find("mail") is definition
    assert list(empty) == [definition]
    assert len(empty) == 1
    assert "mail" in empty
    assert empty.find("post") is None


def test_two_functions_of_one_name_are_refused(empty):
    empty.add(define(send))

    with pytest.raises(DuplicateJobName) as caught:
        empty.add(define(post))

    assert str(caught.value) == (
        f"Two functions are declared as job 'mail': {__name__}.send (line {line_of(send)}) and "
        f"{__name__}.post (line {line_of(post)}). "
        "Give one of them another name: @job(name=…)."
    )
    assert empty.get("mail").function is send


def test_a_name_that_is_used_twice_in_one_module_is_refused(empty):
    """As by a copy of a job that was pasted and not renamed."""
    text = "def send():\n    pass\n\n\ndef send(x):\n    pass\n"
    functions = [compile_function(text, which) for which in (0, 1)]
    empty.add(define(functions[0]))

    with pytest.raises(DuplicateJobName):
        empty.add(define(functions[1]))


def compile_function(text, which):
    code = [
        const for const in compile(text, "jobs.py", "exec").co_consts if hasattr(const, "co_name")
    ]
    return FunctionType(code[which], {"__name__": "shop.jobs"})


def test_a_module_that_is_imported_again_replaces_its_definitions(empty):
    empty.add(define(compile_send()))
    again = define(compile_send())

    empty.add(again)

    assert empty.get("mail") is again


def test_the_same_function_may_be_declared_again(empty):
    empty.add(define(send))

    empty.add(define(send))

    assert len(empty) == 1


def test_handlers_made_in_a_loop_need_names_of_their_own(empty):
    empty.add(define(make_handler("a")))

    with pytest.raises(DuplicateJobName, match="Give one of them another name"):
        empty.add(define(make_handler("b")))


@pytest.mark.parametrize(
    ("name", "guess"), [("mial", " Did you mean 'mail'?"), ("other", ""), (7, "")]
)
def test_an_unknown_name_is_answered_with_what_there_is(empty, name, guess):
    empty.add(define(send))
    empty.add(define(post, name="zip"))

    with pytest.raises(UnknownJob) as caught:
        empty.get(name)

    assert str(caught.value) == (
        f"No job named {name!r} is registered.{guess} Is the app that declares it in "
        "INSTALLED_APPS of this process, and its module called jobs.py? Known: mail, zip."
    )


def test_an_empty_registry_says_so(empty):
    assert empty.explain_missing("mail").endswith("Known: none.")


def test_the_jobs_of_installed_apps_are_registered():
    assert "tests.noop" in registry
