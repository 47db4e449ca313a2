"""What a loop says during an outage."""

from __future__ import annotations

import logging

import psycopg
import pytest

from django_pgjobs.worker.outages import Outage

ERROR = psycopg.OperationalError("connection refused")


@pytest.fixture(autouse=True)
def caplog_at_info(caplog):
    caplog.set_level(logging.INFO, "django_pgjobs.worker")


def test_it_says_the_first_of_many_failures_and_the_end(caplog):
    outage = Outage("Claiming failed, will retry")

    counts = [outage.note(ERROR) for _ in range(50)]
    outage.end()

    assert counts[-1] == 50
    assert caplog.messages == [
        "Claiming failed, will retry: connection refused (OperationalError) failures=1",
        "Claiming failed, will retry: it works again, failures=50",
    ]


def test_it_counts_anew_after_the_end(caplog):
    outage = Outage("Claiming failed, will retry")
    outage.note(ERROR)
    outage.end()

    assert outage.note(ERROR) == 1


def test_what_comes_and_goes_all_the_time_is_not_said_each_time(caplog):
    outage = Outage("Claiming failed, will retry")
    for _ in range(50):
        outage.note(ERROR)
        outage.end()

    assert len(caplog.messages) == 2
