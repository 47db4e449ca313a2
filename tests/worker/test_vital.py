"""Deaths of threads."""

from __future__ import annotations

import logging
import threading

import pytest

from django_pgjobs.worker.vital import VitalThread, deaths_noted


@pytest.fixture
def previous(monkeypatch):
    """Return the threads of which the hook that was there before has heard."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda death: heard.append(death.thread))
    return heard


def die():
    raise ValueError("for a test")


def leave():
    raise SystemExit


@pytest.mark.parametrize("target", [die, leave])
def test_the_death_of_a_vital_thread_is_noted_and_logged(previous, caplog, target):
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
    assert previous == []


def test_other_threads_are_left_to_the_hook_that_was_there_before(previous):
    deaths = []
    with deaths_noted(lambda: deaths.append(True)):
        thread = threading.Thread(target=die)
        thread.start()
        thread.join()

    assert deaths == []
    assert previous == [thread]


def test_afterwards_the_hook_is_what_it_was(previous):
    before = threading.excepthook

    with deaths_noted(lambda: None):
        assert threading.excepthook is not before

    assert threading.excepthook is before
