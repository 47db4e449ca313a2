"""Middleware in every pool of a real worker."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.jobs import count_async, quick, quick_apart

pytestmark = pytest.mark.process


def configure(processes, *paths):
    settings = {"MIDDLEWARE": [f"tests.acceptance.middleware.{path}" for path in paths]}
    processes.environment["PGJOBS_TEST_SETTINGS"] = json.dumps(settings)


def test_middleware_is_around_the_handlers_of_every_pool(processes):
    configure(processes, "counting", "marking")
    jobs = [
        quick.enqueue(number=1).id,
        quick_apart.enqueue(number=1).id,
        count_async.enqueue().id,
    ]
    processes.worker()

    processes.wait_until_empty()

    results = [
        processes.value("SELECT result FROM jobs_completed WHERE id = %s", job) for job in jobs
    ]
    assert results == [{"sync": 2}, {"sync": 2}, {"async": 0}]
    processes.check_invariants(jobs)


def test_a_worker_does_not_start_with_middleware_that_is_none(processes):
    configure(processes, "absent")

    worker = processes.start("pgjobs_worker")

    assert worker.wait() == 1
    assert "PGJOBS['MIDDLEWARE'] names 'tests.acceptance.middleware.absent'" in worker.output()
