"""Deaths of threads."""

from __future__ import annotations

import logging
import threading

import pytest

from django_pgjobs.worker.vital import VitalThread, deaths_noted


def die():
    raise ValueError("for a test")


def leave():
    raise SystemExit


@pytest.mark.parametrize("target", [die, leave])
def test_the_death_of_a_vital_thread_is_noted_and_logged(caplog, target):
    deaths = []
    with deaths_noted(lambda: deaths.append(True)):
        thread = VitalThread(target, name="pgjobs-test")
        thread.start()
        thread.join()

    assert deaths == [True]
    (record,) = caplog.records
    assert record.levelno == logging.CRITICAL
    assert "thread=pgjobs-test" in record.getMessage()
    assert record.exc_info is not None


def test_where_there_is_no_worker_a_death_is_what_it_is_elsewhere(monkeypatch):
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda death: heard.append(death.thread))
    with deaths_noted(lambda: None):
        pass

    thread = VitalThread(die, name="pgjobs-test")
    thread.start()
    thread.join()

    assert heard == [thread]
