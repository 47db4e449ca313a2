"""What handlers say about their progress."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from django_pgjobs import JobContext
from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.exceptions import InvalidHandler

HOUR = timedelta(hours=1)


def context(progress_timeout=None):
    context = JobContext(id=1, name="tests.job")
    context.begin(None, progress_timeout)
    return context


def said(context):
    text = context.last_progress.encode()
    return json.loads(text) if text else None


def test_the_last_word_counts():
    job = context()

    job.progress(1, 10)
    job.progress(2, 10, "pages")

    assert said(job) == {"current": 2, "total": 10, "message": "pages"}


def test_without_a_word_there_is_nothing_to_keep():
    assert context().last_progress is None
    assert said(context(HOUR)) is None


def test_what_is_kept_is_bounded():
    job = context()

    job.progress(1, message="x" * 10_000 + "\x00")

    assert len(said(job)["message"]) <= 200


@pytest.mark.parametrize("value", ["3", None, True, 3 + 0j])
def test_progress_is_a_number(value):
    with pytest.raises(TypeError, match="Progress is counted in numbers"):
        context().progress(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, -(10**16)])
def test_it_is_one_that_can_be_kept(value):
    for arguments in ((value,), (1, value)):
        with pytest.raises(ValueError, match="must be a number of at most"):
            context().progress(*arguments)


def test_a_message_is_text():
    with pytest.raises(TypeError, match="message of a progress must be text"):
        context().progress(1, 2, 3)


def test_without_a_timeout_progress_may_stand_still():
    job = context()
    job.progress(1)

    assert not job.last_progress.has_stalled


def test_progress_that_stands_still_has_stalled(monkeypatch):
    now = 0.0
    monkeypatch.setattr("django_pgjobs.definitions.progress.monotonic", lambda: now)
    job = context(timedelta(seconds=10))
    states = []

    for now, current in ((9.0, 1), (18.0, 1), (19.5, 1), (20.0, 2), (29.0, 2)):
        states.append(job.last_progress.has_stalled)
        job.progress(current, message=str(now))
        states.append(job.last_progress.has_stalled)

    # Only at 19.5 had nothing changed for longer; repeating it does not help, going on does.
    assert states == [False, False, False, False, True, True, True, False, False, False]


def test_a_handler_without_a_context_cannot_say_anything():
    def handler():
        pass

    with pytest.raises(InvalidHandler, match="progress_timeout needs a handler that takes"):
        JobDefinition(name="tests.job", function=handler, progress_timeout=HOUR)


@pytest.mark.parametrize("timeout", [timedelta(0), 10, "1 hour"])
def test_a_progress_timeout_is_a_duration(timeout):
    def handler(context):
        pass

    with pytest.raises(InvalidHandler, match="progress_timeout must be a timedelta above zero"):
        JobDefinition(name="tests.job", function=handler, progress_timeout=timeout)
