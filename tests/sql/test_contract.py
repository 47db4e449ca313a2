"""Every statement file has the form that CONTRIBUTING.md describes."""

from __future__ import annotations

import ast
import re

import psycopg
import pytest

from django_pgjobs.sql import statement

from .statements import BY_NAME, FILES, PACKAGE, PLACEHOLDER

TYPES = {"int": "integer", "int[]": "integer[]"}
LONG_NAMES = {
    "float8": "double precision",
    "float8[]": "double precision[]",
    "timestamptz": "timestamp with time zone",
    "timestamptz[]": "timestamp with time zone[]",
}
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "and any array as asc between by case coalesce conflict cross delete desc distinct do "
        "else end exists from group having in insert into is join lateral left limit "
        "materialized no not nothing null nullif on or order over returning select set skip "
        "then union update using values when where with",
    )
)
# Functions that read as keywords but are written as functions.
FUNCTIONS = {"coalesce", "nullif"}

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def store_functions():
    """Return each function of the store, with the statements that it executes."""
    for path in sorted((PACKAGE / "store").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                constants = [node for node in ast.walk(function) if isinstance(node, ast.Constant)]
                names = {str(node.value) for node in constants} & set(BY_NAME)
                if names:
                    yield function, names


@each_file
def test_the_first_line_names_the_file_and_says_what_it_does(file):
    assert re.fullmatch(rf"-- {file.path.stem}: \S.*\.", file.lines[0])


@each_file
def test_the_header_comes_first_and_comments_end_with_it(file):
    assert file.header == file.lines[: len(file.header)]
    assert "--" not in file.code
    assert "/*" not in file.code


@each_file
def test_the_header_says_what_it_returns(file):
    assert any(line.startswith("-- Returns") for line in file.header)


@each_file
def test_the_header_documents_the_parameters_and_no_others(file):
    assert sorted(file.documented) == sorted(file.placeholders)


@each_file
def test_every_placeholder_is_cast_to_the_documented_type(file):
    casts = {
        name: {TYPES.get(type_name, type_name)} for name, type_name in file.documented.items()
    }
    # The name of a table goes in as text and is looked up by the server.
    if file.path.stem == "list_partitions":
        casts["table_name"] = {"regclass"}

    assert file.placeholders == casts


@each_file
def test_no_placeholder_is_inside_quotes(file):
    assert len(PLACEHOLDER.findall(file.code)) == len(PLACEHOLDER.findall(file.body))
    # Any other percent sign is doubled, and nothing but a literal has one.
    assert "%" not in PLACEHOLDER.sub("", file.code)
    assert "%" not in PLACEHOLDER.sub("", file.body).replace("%%", "")
    assert "%" not in "".join(file.header)


@each_file
def test_there_is_exactly_one_statement(file):
    assert ";" not in file.code
    assert re.match(r"(WITH|SELECT|INSERT|UPDATE|DELETE)\b", file.body)


@each_file
def test_columns_are_listed_by_name(file):
    assert not re.search(r"(?:\bSELECT|\bRETURNING|,)\s+(?:\w+\.)?\*", file.code)


@each_file
def test_keywords_are_in_upper_case(file):
    words = set(re.findall(r"(?<![.\w])[a-z]+\b", PLACEHOLDER.sub("", file.code)))

    assert words & (KEYWORDS - FUNCTIONS) == set()


@each_file
def test_rows_that_are_picked_for_a_write_are_picked_once(file):
    """Without MATERIALIZED the planner may run the LIMIT and the lock again for each row."""
    parts = re.split(r"(?m)^(?=(?:WITH )?\w+ AS )", file.body)
    for part in parts:
        if "FOR NO KEY UPDATE" in part or "FOR UPDATE" in part:
            assert len(parts) == 1 or re.match(r"(WITH )?\w+ AS MATERIALIZED \(", part)


@each_file
def test_running_rows_are_looked_for_by_their_own_epochs(file):
    for part in file.body.split("FROM jobs_active\n")[1:]:
        condition = re.split(r"\n *(?:ORDER BY|GROUP BY|LIMIT|UNION|\))", part)[0]
        if "locked_at IS NOT NULL" in condition:
            assert "jobs_epoch_low" not in condition


@each_file
def test_exactly_one_store_function_executes_it_under_its_own_name(file):
    # Functions that put several statements into one transaction come on top.
    functions = [function for function, names in store_functions() if names == {file.name}]

    assert [function.name for function in functions] == [file.path.stem]
    assert f"sql/{file.name}.sql" in ast.get_docstring(functions[0])


@each_file
def test_the_statement_can_be_recognised_on_the_server(file):
    text = statement(file.name)

    assert text.startswith(f"/* pgjobs {file.path.stem} */ ")
    assert "\n--" not in text
    assert text.endswith(file.body.strip())


def test_an_unknown_statement_is_an_error():
    with pytest.raises(FileNotFoundError):
        statement("claim/no_such_statement")


@each_file
def test_the_server_understands_it_with_its_own_binding(file, django_connection):
    text, names = file.numbered

    django_connection.execute(f"PREPARE understood AS {text}")

    (types,) = django_connection.execute(
        "SELECT parameter_types::oid[]::regtype[]::text[] FROM pg_prepared_statements "
        "WHERE name = 'understood'"
    ).fetchone()
    assert types == [LONG_NAMES.get(cast, cast) for cast in casts_of(file, names)]


def casts_of(file, names):
    return [next(iter(file.placeholders[name])) for name in names]


@each_file
def test_the_server_understands_it_with_the_bindings_of_the_client(file, django_connection):
    cursor = psycopg.ClientCursor(django_connection)

    cursor.execute(f"EXPLAIN {statement(file.name)}", dict.fromkeys(file.placeholders))

    assert cursor.fetchall()


@pytest.fixture
def django_connection(db):
    from django.db import connection

    connection.ensure_connection()
    yield connection.connection
    connection.connection.execute("DEALLOCATE ALL")
