"""How many connections a worker needs."""

from __future__ import annotations

import pytest

from django_pgjobs.conf import PgJobsSettings
from django_pgjobs.definitions.pools import PROCESSES, THREADS
from django_pgjobs.observability.connections import explain_shortage
from django_pgjobs.store.observe import ConnectionLimit
from django_pgjobs.worker.connections import connections_needed
from django_pgjobs.worker.worker import WorkerOptions


class Declared:
    """A definition of a job, as far as pools are concerned."""

    def __init__(self, *, is_async=False, pool=None):
        self.is_async = is_async
        self.pool = pool


def options(pool=THREADS, **values):
    return WorkerOptions(
        queues=None,
        is_strict=False,
        concurrency=7,
        async_concurrency=500,
        process_concurrency=3,
        pool=pool,
        settings=PgJobsSettings.from_mapping(values),
    )


@pytest.mark.parametrize(
    ("options", "declared", "maintains", "needed"),
    [
        (options(), [Declared()], False, 4 + 7),
        (options(), [], True, 5 + 7),
        (options(LISTEN=False), [Declared()], False, 3 + 7),
        (options(ASYNC_THREADS=5), [Declared(is_async=True)], False, 4 + 7 + 5),
        (options(), [Declared(pool=PROCESSES)], False, 4 + 7 + 3),
        (options(PROCESSES), [Declared()], False, 4 + 7 + 3),
    ],
    ids=["threads", "maintenance", "polling", "event loop", "processes", "default pool"],
)
def test_it_is_its_own_and_one_for_each_place(options, declared, maintains, needed):
    assert connections_needed(options, declared, maintains=maintains) == needed


def test_enough_is_not_worth_a_word():
    assert explain_shortage(10, [ConnectionLimit("server", 97, 87)]) == []


def test_too_few_are():
    limits = [ConnectionLimit("role", 20, 0), ConnectionLimit("server", 97, 88)]

    assert explain_shortage(10, limits) == [
        "The worker needs up to 10 connections, but max_connections, less what is reserved for "
        "superusers allows 97, and 88 are in use. Give it less to do at a time, raise the limit, "
        "or use a pooler."
    ]
