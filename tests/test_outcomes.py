"""What a handler raises to choose its own ending."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from django_pgjobs import Cancel, Retry, Snooze

MINUTE = timedelta(minutes=1)

each_with_a_delay = pytest.mark.parametrize(
    "make", [Snooze, lambda delay: Retry(delay=delay)], ids=["snooze", "retry"]
)


def test_an_outcome_keeps_what_it_was_given():
    assert (str(Retry("busy", delay=MINUTE)), Retry("busy", delay=MINUTE).delay) == (
        "busy",
        MINUTE,
    )
    assert (str(Retry()), Retry().delay) == ("", None)
    assert (str(Snooze(MINUTE)), Snooze(MINUTE).delay) == ("Snoozed for 0:01:00.", MINUTE)
    assert str(Cancel("not needed")) == "not needed"


@pytest.mark.parametrize(
    "make", [Snooze, lambda delay: Retry(delay=delay)], ids=["snooze", "retry"]
)
def test_a_delay_is_a_timedelta_of_zero_or_more(make):
    assert make(timedelta(0)).delay == timedelta(0)
    with pytest.raises(TypeError, match=r"^delay must be a timedelta, not 60\.$"):
        make(60)
    with pytest.raises(ValueError, match=r"^delay must not be negative, but is "):
        make(-MINUTE)


@pytest.mark.parametrize(
    "make", [Snooze, lambda delay: Retry(delay=delay)], ids=["snooze", "retry"]
)
def test_a_delay_that_no_clock_could_add_is_refused(make):
    with pytest.raises(ValueError, match=r"^delay must be at most 36525 days, but is "):
        make(timedelta.max)


@pytest.mark.parametrize("outcome", [Retry("busy", delay=MINUTE), Snooze(MINUTE), Cancel("no")])
def test_an_outcome_crosses_processes(outcome):
    copy = pickle.loads(pickle.dumps(outcome))  # noqa: S301

    assert (type(copy), str(copy), vars(copy)) == (type(outcome), str(outcome), vars(outcome))
