"""Named parameters become numbered ones."""

from __future__ import annotations

import pytest

from django_pgjobs.store.connecting import connect
from django_pgjobs.store.numbering import NumberedCursor, numbered


def test_a_name_has_one_number():
    query = "SELECT %(b)s::int, %(a)s::text, %(b)s::int"

    assert numbered(query) == (b"SELECT $1::int, $2::text, $1::int", ["b", "a"])


def test_a_doubled_percent_sign_is_one():
    assert numbered("SELECT format('%%I', %(a)s::text)") == (
        b"SELECT format('%I', $1::text)",
        ["a"],
    )


def test_values_go_where_their_names_were(tables):
    query = "SELECT %(b)s::int - %(a)s::int, %(b)s::int, format('%%s', %(a)s::int)"
    with connect("default", "pgjobs test") as connection:
        cursor = NumberedCursor(connection)

        assert cursor.execute(query, {"a": 1, "b": 3, "unused": 0}).fetchall() == [(2, 3, "1")]


def test_a_value_that_is_missing_is_named(tables):
    with connect("default", "pgjobs test") as connection:
        cursor = NumberedCursor(connection)

        with pytest.raises(KeyError, match="b"):
            cursor.execute("SELECT %(b)s::int", {"a": 1})
