"""Nothing of a handler is left on a thread's connections, whenever it connected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from factory.django import mute_signals

from django_pgjobs.worker.hygiene import clean_connections, close_connections


@pytest.fixture
def in_new_thread(tables):
    """Return a function that calls another one in a thread that has never had a connection."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield lambda function: executor.submit(function).result()
        executor.submit(close_connections).result()


def leave_transaction_open():
    """Do as a handler does that begins a transaction and forgets about it."""
    connection.set_autocommit(False)
    assert connection.in_atomic_block or not connection.autocommit


def is_clean():
    """Say whether the thread's connection is as a handler should find it."""
    return connection.connection is None or connection.autocommit


def test_a_thread_is_cleaned_that_connects_after_a_first_job_without(in_new_thread):
    def run_two_jobs():
        clean_connections()
        leave_transaction_open()
        clean_connections()
        return is_clean()

    assert in_new_thread(run_two_jobs)


def test_a_thread_is_cleaned_that_connected_before_anybody_was_told(in_new_thread):
    def run_a_job():
        with mute_signals(connection_created):
            leave_transaction_open()
        clean_connections()
        return is_clean()

    assert in_new_thread(run_a_job)
