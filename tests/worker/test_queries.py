"""What handlers execute: marked with its job, and nothing of it is left in the session."""

from __future__ import annotations

import contextvars

import pytest
from django.db import connection, connections
from django.db.backends.signals import connection_created

from django_pgjobs.worker import hygiene
from django_pgjobs.worker.queries import QueryWatch, leaves_state, note_running


@pytest.fixture
def kept(tables):
    """Return Django's connection, which is kept after each job, and which nobody watches yet."""
    # A worker that was tried in this process may have begun to.
    connection_created.disconnect(dispatch_uid=QueryWatch.__module__)
    connection.execute_wrappers.clear()
    connection.close()
    connection.settings_dict["CONN_MAX_AGE"] = None
    yield connection
    connection.settings_dict["CONN_MAX_AGE"] = 0
    connection.close()


@pytest.fixture
def pooled(tables):
    """Have Django lend its connections from a pool of one."""
    pytest.importorskip("psycopg_pool")
    connection.close()
    options = connection.settings_dict["OPTIONS"]
    options["pool"] = {"min_size": 1, "max_size": 1}
    watch = QueryWatch(comments=True)
    watch._watch(connection)
    yield
    connection.close()
    connection.close_pool()
    del options["pool"]
    connection.execute_wrappers.remove(watch.execute)


@pytest.fixture
def as_handler(kept):
    """Return a function that executes queries as the handler of job 42 does; then it ends."""
    watch = QueryWatch(comments=True)
    watch._watch(kept)

    def run(*queries):
        def handle():
            note_running(42)
            with connections["default"].cursor() as cursor:
                for query in queries:
                    cursor.execute(query)
                return cursor.fetchone() if cursor.description else None

        answer = contextvars.copy_context().run(handle)
        hygiene.clean_connections()
        return answer

    yield run
    kept.execute_wrappers.remove(watch.execute)


OWN_QUERY = "SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()"


def test_a_query_says_for_which_job_it_is(as_handler):
    assert as_handler(OWN_QUERY) == (f"/* pgjobs job=42 */ {OWN_QUERY}",)


def test_a_query_outside_of_a_job_says_nothing(as_handler, kept):
    with kept.cursor() as cursor:
        cursor.execute(OWN_QUERY)
        assert cursor.fetchone() == (OWN_QUERY,)


def test_without_the_setting_nothing_is_said(kept):
    watch = QueryWatch(comments=False)
    context = {"connection": kept}

    def say(job_id):
        note_running(job_id)
        return watch.execute(lambda sql, *args: sql, "SELECT 1", None, False, context)

    assert contextvars.copy_context().run(say, 42) == "SELECT 1"


def test_a_query_that_would_be_prepared_is_left_as_it_is(as_handler, kept, monkeypatch):
    monkeypatch.setitem(kept.settings_dict, "OPTIONS", {"prepare_threshold": 5})

    assert as_handler(OWN_QUERY) == (OWN_QUERY,)


def test_a_connection_is_watched_once(kept):
    watch = QueryWatch(comments=True)
    before = len(kept.execute_wrappers)

    for _ in range(3):
        watch._watch(kept)

    assert len(kept.execute_wrappers) == before + 1
    kept.execute_wrappers.remove(watch.execute)


@pytest.mark.parametrize(
    "query",
    [
        "SET search_path = 'elsewhere'",
        "  set session characteristics as transaction read only",
        "SET ROLE NONE",
        "SELECT set_config('pgjobs.tenant', '7', false)",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(1, 2)",
        "CREATE TEMPORARY TABLE IF NOT EXISTS scratch (n int)",
        "LISTEN orders",
    ],
)
def test_what_a_handler_leaves_in_its_session_does_not_reach_the_next_job(as_handler, query):
    pid = "SELECT pg_backend_pid()"
    before = as_handler(pid)

    as_handler(query)

    assert as_handler(pid) != before


@pytest.mark.parametrize("clean", [hygiene.clean_connections, hygiene.close_connections])
def test_neither_does_it_through_a_pool_of_connections(pooled, clean):
    def run(query):
        def handle():
            note_running(42)
            with connections["default"].cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchone() if cursor.description else None

        answer = contextvars.copy_context().run(handle)
        clean()
        return answer

    pid = "SELECT pg_backend_pid()"
    before = run(pid)
    assert run(pid) == before

    run("SET search_path = 'elsewhere'")

    assert run(pid) != before


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SET LOCAL search_path = 'elsewhere'",
        "SET TRANSACTION READ ONLY",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SELECT set_config('pgjobs.tenant', '7', true)",
        "SELECT pg_advisory_xact_lock(1)",
        "UPDATE orders SET state = 'paid'",
        "SELECT 'reset' AS word",
    ],
)
def test_what_ends_with_the_transaction_is_no_reason_to_connect_anew(query):
    assert not leaves_state(query)


def test_a_connection_on_which_nothing_was_left_is_kept(as_handler):
    assert as_handler("SELECT pg_backend_pid()") == as_handler("SELECT pg_backend_pid()")


def test_the_log_of_queries_does_not_grow(as_handler, kept, settings):
    settings.DEBUG = True

    as_handler("SELECT 1")

    assert len(kept.queries_log) == 0
