"""What ``using`` accepts, and what it makes of times."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from django_pgjobs.exceptions import InvalidOption
from django_pgjobs.producer.options import EnqueueOptions, aware

NOON = datetime(2026, 7, 1, 12)
KEY_PROBLEM = "idempotency_key must be text of 1 to 255 bytes without NUL, not "
TAG_PROBLEM = "A tag must be text of 1 to 255 bytes without NUL, not "


def options(**changes):
    return EnqueueOptions().replace(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"queue": "mail", "priority": -1, "max_attempts": 1},
        {"delay": timedelta(0)},
        {"delay": timedelta(days=36_525)},
        {"at": NOON.replace(tzinfo=UTC)},
        {"at": NOON},
        {"expires": timedelta(microseconds=1)},
        {"expires": NOON.replace(tzinfo=timezone(timedelta(hours=9)))},
        {"delay": timedelta(1), "expires": timedelta(1)},
        {"tenant": 1 - 2**63},
        {"tenant": 2**63 - 1},
        {"idempotency_key": "é" * 127},
        {"tags": ["a", "b"]},
        {"tags": {"only"}},
        {"tags": ()},
    ],
    ids=str,
)
def test_an_option_within_its_bounds_is_accepted(changes):
    assert options(**changes) is not None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"delay": timedelta(1), "at": NOON}, "Give either delay or at, not both."),
        (
            {"delay": timedelta(microseconds=-1)},
            "delay must be a timedelta of 0 to 36525 days, not "
            "datetime.timedelta(days=-1, seconds=86399, microseconds=999999).",
        ),
        ({"delay": timedelta.max}, "delay must be a timedelta of 0 to 36525 days, not "),
        ({"delay": 60}, "delay must be a timedelta of 0 to 36525 days, not 60."),
        ({"at": "noon"}, "at must be a datetime, not 'noon'."),
        ({"at": date(2026, 7, 1)}, "at must be a datetime, not datetime.date(2026, 7, 1)."),
        ({"at": datetime.min}, "at must be between the years 1900 and 9800, not datetime."),
        (
            {"at": datetime.max.replace(tzinfo=UTC)},
            "at must be between the years 1900 and 9800, not datetime.",
        ),
        (
            {"expires": timedelta(0)},
            "expires must be above 0 and at most 36525 days, not datetime.timedelta(0).",
        ),
        ({"expires": timedelta.max}, "expires must be above 0 and at most 36525 days, not "),
        ({"expires": 60}, "expires must be a datetime or a timedelta, not 60."),
        ({"expires": datetime.max}, "expires must be between the years 1900 and 9800, not "),
        ({"tenant": 2**63}, "tenant must be a whole number of at most 63 bits, not 9223372036854"),
        ({"tenant": -(2**63)}, "tenant must be a whole number of at most 63 bits, not -922337203"),
        ({"tenant": "7"}, "tenant must be a whole number of at most 63 bits, not '7'."),
        ({"tenant": True}, "tenant must be a whole number of at most 63 bits, not True."),
        ({"tenant": None}, "tenant must be a whole number of at most 63 bits, not None."),
        ({"idempotency_key": ""}, KEY_PROBLEM + "''."),
        ({"idempotency_key": "k" * 256}, KEY_PROBLEM + "'kkk"),
        ({"idempotency_key": "é" * 128}, KEY_PROBLEM + "'éé"),
        ({"idempotency_key": "a\x00"}, KEY_PROBLEM + "'a\\x00'."),
        ({"idempotency_key": "\ud800"}, KEY_PROBLEM + "'\\ud800'."),
        ({"idempotency_key": 7}, KEY_PROBLEM + "7."),
        ({"tags": "mail"}, "tags must be a list of strings, not 'mail'."),
        ({"tags": 7}, "tags must be a list of strings, not 7."),
        ({"tags": None}, "tags must be a list of strings, not None."),
        ({"tags": ["a", 7]}, TAG_PROBLEM + "7."),
        ({"tags": [""]}, TAG_PROBLEM + "''."),
        ({"tags": ["\x00"]}, TAG_PROBLEM + "'\\x00'."),
        ({"tags": ["t" * 256]}, TAG_PROBLEM + "'ttt"),
        ({"queue": "two words"}, "queue must be 1 to 63 letters"),
        ({"queue": "q" * 10_000}, "queue must be 1 to 63 letters"),
        ({"priority": 40_000}, "priority must be a whole number from -32767 to 32767, not 40000."),
        ({"max_attempts": 0}, "max_attempts must be 1 to 10000, not 0."),
        ({"dealy": timedelta(1)}, "using() has no option 'dealy'. Did you mean 'delay'?"),
        (
            {"zzz": 1},
            "using() has no option 'zzz'. Known: queue, priority, max_attempts, delay, at, "
            "tenant, idempotency_key, expires, tags.",
        ),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, dict) else "",
)
def test_an_option_out_of_its_bounds_is_refused(changes, problem):
    with pytest.raises(InvalidOption) as caught:
        options(**changes)

    assert str(caught.value).startswith(problem)


def test_what_was_chosen_before_is_kept():
    chosen = options(tenant=7, tags=["a"]).replace(priority=3)

    assert (chosen.tenant, chosen.tags, chosen.priority) == (7, ("a",), 3)


def test_a_delay_can_be_taken_back_for_an_instant():
    chosen = options(delay=timedelta(1)).replace(delay=None, at=NOON)

    assert (chosen.delay, chosen.at) == (None, NOON)


def test_an_aware_datetime_is_that_instant():
    value = NOON.replace(tzinfo=timezone(timedelta(hours=5)))

    assert aware(value) is value


def test_a_naive_datetime_is_warned_about_where_time_zones_are_used(settings):
    settings.USE_TZ = True
    settings.TIME_ZONE = "Europe/Berlin"

    with pytest.warns(RuntimeWarning) as warned:
        value = aware(NOON)

    assert value == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert str(warned[0].message) == (
        "A job was enqueued with the naive datetime datetime.datetime(2026, 7, 1, 12, 0) while "
        "time zone support is active; it is taken in the default time zone."
    )


def test_a_naive_datetime_is_usual_where_time_zones_are_not_used(settings):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"

    assert aware(NOON) == datetime(2026, 7, 1, 10, tzinfo=UTC)
