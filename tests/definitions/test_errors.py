"""What is kept of an exception can always be stored."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync

from django_pgjobs.definitions.errors import (
    MAX_MESSAGE,
    MAX_TRACEBACK,
    class_path,
    fingerprint_of,
    message_of,
    storable,
    traceback_of,
)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class NotText(Exception):
    def __str__(self):
        return 7  # noqa: PLE0307


def caught(function, *args):
    """Return what ``function`` raises, with its traceback."""
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("It did not raise.")


def fail(error):
    raise error


def chain():
    try:
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("second") from error


def compiled(source, name="handler"):
    """Return a function of a file called jobs.py."""
    namespace = {}
    exec(compile(source, "/srv/shop/jobs.py", "exec"), namespace)  # noqa: S102
    return namespace[name]


def test_a_class_is_named_by_its_path():
    assert class_path(Unprintable()) == f"{__name__}.Unprintable"
    assert class_path(ValueError()) == "builtins.ValueError"
    assert len(class_path(type("E" * 1000, (Exception,), {})())) <= 255


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "no"),
        (ValueError(), ""),
        (Unprintable(), "<str() of this Unprintable raised RuntimeError>"),
        (NotText(), "<str() of this NotText raised TypeError>"),
        (ValueError("a\x00b"), "a\\x00b"),
        (ValueError("a\ud800b"), "a\\ud800b"),
        (KeyError("key"), "'key'"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_message_is_text_that_can_be_stored(error, message):
    assert message_of(error) == message


@pytest.mark.parametrize("character", ["x", "\x00", "\ud800", "é"], ids=ascii)
def test_a_message_of_ten_megabytes_is_cut_in_the_middle(character):
    message = message_of(ValueError("<" + character * 10_000_000 + ">"))

    assert len(message) <= MAX_MESSAGE
    assert message[0] == "<"
    assert message[-1] == ">"
    assert re.search(r"\n… \d+ characters …\n", message)


def test_text_at_the_limit_is_not_cut():
    assert storable("x" * 100, 100) == "x" * 100
    assert storable("x" * 101, 100) == f"{'x' * 30}\n… 41 characters …\n{'x' * 30}"


@pytest.mark.django_db
def test_what_is_kept_goes_into_a_column():
    from django.db import connection

    text = message_of(ValueError("\x00\ud800\udfff\U0010ffff" * 5000))

    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text", [text])
        assert cursor.fetchone() == (text,)


def test_a_traceback_tells_the_frames_and_the_causes():
    text = traceback_of(caught(chain))

    assert text.startswith("Traceback (most recent call last):\n")
    assert "KeyError: 'first'" in text
    assert "The above exception was the direct cause" in text
    assert text.endswith("ValueError: second\n")


def test_a_traceback_does_not_tell_local_variables():
    def handler():
        password = "secret-value"
        raise ValueError(len(password))

    assert "secret-value'" not in traceback_of(caught(handler))


def test_a_traceback_of_an_unprintable_error_is_kept():
    assert "in fail" in traceback_of(caught(fail, Unprintable()))


def test_a_traceback_whose_formatting_fails_keeps_the_frames():
    class Hostile(Exception):
        @property
        def __notes__(self):
            raise RuntimeError("no notes")

        def __str__(self):
            raise RuntimeError

    text = traceback_of(caught(fail, Hostile()))

    assert "in fail" in text
    assert "Hostile" in text


def test_a_traceback_is_cut_in_the_middle():
    text = traceback_of(caught(fail, ValueError("x" * 10_000_000)))

    assert len(text) <= MAX_TRACEBACK
    assert text.startswith("Traceback")


def test_a_circle_of_causes_ends():
    error = ValueError("a")
    error.__cause__ = KeyError("b")
    error.__cause__.__cause__ = error

    assert "ValueError: a" in traceback_of(error)


# Fingerprints


def test_a_fingerprint_has_16_hexadecimal_digits():
    assert re.fullmatch("[0-9a-f]{16}", fingerprint_of(caught(fail, ValueError())))


def test_a_fingerprint_survives_another_message_and_an_edit_above():
    before = compiled("def handler(order):\n    raise ValueError(f'order {order}')\n")
    after = compiled("import os\n\n\ndef handler(order):\n    raise ValueError(f'no {order}')\n")

    prints = {
        fingerprint_of(caught(before, 1)),
        fingerprint_of(caught(before, 2)),
        fingerprint_of(caught(after, 3)),
    }

    assert len(prints) == 1


def test_a_fingerprint_does_not_depend_on_what_calls_the_handler():
    handler = compiled("def handler():\n    raise ValueError\n")
    coroutine = compiled("async def handler():\n    raise ValueError\n")
    with ThreadPoolExecutor(1) as pool:
        from_a_thread = pool.submit(handler).result

        prints = {
            fingerprint_of(caught(function))
            for function in (handler, from_a_thread, async_to_sync(coroutine))
        }

    assert len(prints) == 1


def test_a_fingerprint_survives_another_folder():
    source = "def handler():\n    raise ValueError\n"
    elsewhere = {}
    exec(compile(source, "/home/app/releases/7/jobs.py", "exec"), elsewhere)  # noqa: S102

    assert fingerprint_of(caught(compiled(source))) == fingerprint_of(caught(elsewhere["handler"]))


def test_a_fingerprint_tells_classes_and_places_apart():
    first = compiled("def handler():\n    raise ValueError\n")
    second = compiled("def handler():\n    raise KeyError\n")
    third = compiled("def other():\n    raise ValueError\ndef handler():\n    other()\n")

    assert len({fingerprint_of(caught(function)) for function in (first, second, third)}) == 3


def test_a_fingerprint_does_not_depend_on_the_depth_of_a_recursion():
    recurse = compiled(
        "def handler(depth):\n    if not depth: raise ValueError\n    handler(depth - 1)\n"
    )

    assert fingerprint_of(caught(recurse, 3)) == fingerprint_of(caught(recurse, 50))


def test_an_error_without_a_traceback_has_a_fingerprint():
    assert fingerprint_of(ValueError()) != fingerprint_of(KeyError())
