"""Where PGJOBS["DATABASE"] is another alias, jobs belong to the transactions of that one."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

from django_pgjobs import enqueue, enqueue_many
from django_pgjobs.models import ActiveJob
from django_pgjobs.producer.enqueueing import COPY_FROM
from tests.app.jobs import noop


@pytest.fixture(params=["one", "by name", "INSERT", "COPY"])
def put(request):
    """Return a function that enqueues, each in its own way."""
    return {
        "one": noop.enqueue,
        "by name": lambda: enqueue("tests.noop"),
        "INSERT": lambda: enqueue_many([noop.prepare()]),
        "COPY": lambda: enqueue_many([noop.prepare()] * COPY_FROM),
    }[request.param]


def count(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs_active")
        return cursor.fetchone()[0]


def test_jobs_are_written_to_that_database_only(jobs_alias, put):
    put()

    assert count("default") == 0
    assert count(jobs_alias) == ActiveJob.objects.count() > 0


def test_a_rollback_there_leaves_no_job(jobs_alias, put):
    with transaction.atomic(using=jobs_alias):
        put()
        transaction.set_rollback(True, using=jobs_alias)

    assert count(jobs_alias) == 0


def test_a_rollback_elsewhere_does_not_concern_the_jobs(jobs_alias, put):
    with transaction.atomic():
        put()
        transaction.set_rollback(True)

    assert count(jobs_alias) > 0


def test_a_transaction_elsewhere_is_not_opened_there(jobs_alias, put):
    with transaction.atomic():
        put()

        assert not connections[jobs_alias].in_atomic_block


def test_a_taken_key_is_found_there(jobs_alias):
    keyed = noop.using(idempotency_key="k")
    first = keyed.enqueue()

    with transaction.atomic(using=jobs_alias):
        second = keyed.enqueue()

    assert (second.id, second.created) == (first.id, False)
