"""The PGJOBS setting is read into one validated object."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_pgjobs.conf import PgJobsSettings, get_settings

CENTURY = timedelta(days=36_525)
FIELDS = {field.name.upper(): field for field in dataclasses.fields(PgJobsSettings)}
DURATIONS = sorted(name for name, field in FIELDS.items() if "timedelta" in str(field.type))
COUNTS = sorted(name for name, field in FIELDS.items() if field.type in {"int", "int | None"})
ZERO_ALLOWED = {"SHUTDOWN_TIMEOUT", "HISTORY_RETENTION", "BACKOFF_BASE"}


def problem(mapping):
    """Return why ``mapping`` is refused."""
    with pytest.raises(ImproperlyConfigured) as caught:
        PgJobsSettings.from_mapping(mapping)
    return str(caught.value)


def test_without_the_setting_there_are_defaults(settings):
    del settings.PGJOBS

    assert get_settings() == PgJobsSettings()


@pytest.fixture(autouse=True)
def pgjobs(settings):
    """Let a test delete the setting."""
    settings.PGJOBS = {}


def test_a_key_is_a_field_in_upper_case(settings):
    settings.PGJOBS = {"CONCURRENCY": 4, "POLL_INTERVAL": timedelta(seconds=2)}

    assert get_settings().concurrency == 4
    assert get_settings().poll_interval == timedelta(seconds=2)
    assert get_settings().default_queue == "default"


def test_the_setting_is_read_once_and_again_when_it_changes(settings):
    settings.PGJOBS = {"CONCURRENCY": 4}
    first = get_settings()

    assert get_settings() is first
    settings.PGJOBS = {"CONCURRENCY": 5}
    assert get_settings().concurrency == 5


def test_another_setting_forgets_nothing(settings):
    first = get_settings()

    settings.DEBUG = True

    assert get_settings() is first


def test_a_wrong_setting_stays_wrong(settings):
    settings.PGJOBS = {"CONCURRENCY": 0}

    for _ in range(2):
        with pytest.raises(ImproperlyConfigured):
            get_settings()


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("CLAIM_BATCH_SIZ", "Did you mean 'CLAIM_BATCH_SIZE'?"),
        ("concurrency", "Did you mean 'CONCURRENCY'?"),
        ("ZZZ", f"Known: {', '.join(sorted(FIELDS))}."),
        (7, f"Known: {', '.join(sorted(FIELDS))}."),
    ],
)
def test_an_unknown_key_is_answered_with_a_guess(key, answer):
    assert problem({key: 1}) == f"Unknown PGJOBS key {key!r}. {answer}"


@pytest.mark.parametrize("value", [None, [], "DATABASE", [("DATABASE", "default")]])
def test_a_setting_that_is_no_dict_is_refused(value):
    assert problem(value) == f"PGJOBS must be a dict, not {value!r}."


@pytest.mark.parametrize("key", sorted(FIELDS))
@pytest.mark.parametrize("value", [b"x", True, 1.5, [1]], ids=repr)
def test_a_value_of_the_wrong_type_is_refused(key, value):
    if FIELDS[key].type == "bool" and value is True:
        value = 1
    expected = "timedelta" if key in DURATIONS else FIELDS[key].type.removesuffix(" | None")
    expected = expected.replace("tuple[str, ...]", "list of dotted paths")

    assert problem({key: value}) == f"PGJOBS[{key!r}] must be a {expected}, not {value!r}."


@pytest.mark.parametrize("key", DURATIONS)
def test_a_duration_is_no_number(key):
    assert problem({key: 30}) == f"PGJOBS[{key!r}] must be a timedelta, not 30."


@pytest.mark.parametrize("key", DURATIONS)
def test_a_negative_duration_is_refused(key):
    value = timedelta(microseconds=-1)

    assert problem({key: value}) == (
        f"PGJOBS[{key!r}] must be greater than zero, but is {value!r}."
    )


@pytest.mark.parametrize("key", [*COUNTS, *DURATIONS])
def test_zero_is_accepted_where_it_means_something(key):
    zero = timedelta(0) if key in DURATIONS else 0

    if key in ZERO_ALLOWED:
        assert PgJobsSettings.from_mapping({key: zero}) is not None
    else:
        assert problem({key: zero}) == (
            f"PGJOBS[{key!r}] must be greater than zero, but is {zero!r}."
        )


@pytest.mark.parametrize("key", DURATIONS)
def test_a_duration_that_no_clock_could_add_is_refused(key):
    assert problem({key: CENTURY + timedelta.resolution}).startswith(
        f"PGJOBS[{key!r}] must be at most 36525 days, 0:00:00, but is "
    )


@pytest.mark.parametrize("key", COUNTS)
def test_a_number_that_no_column_holds_is_refused(key):
    most = {"DEFAULT_MAX_ATTEMPTS": 10_000, "DEFAULT_QUOTA_WEIGHT": 1000}.get(key, 2**31 - 1)

    assert PgJobsSettings.from_mapping({key: most}) is not None
    assert problem({key: most + 1}) == (
        f"PGJOBS[{key!r}] must be at most {most}, but is {most + 1}."
    )


def test_history_may_be_kept_for_ever():
    assert PgJobsSettings.from_mapping({"HISTORY_RETENTION": None}).history_retention is None
    assert problem({"LEASE_DURATION": None}) == (
        "PGJOBS['LEASE_DURATION'] must be a timedelta, not None."
    )


@pytest.mark.parametrize("queue", ["", "two words", "q" * 64, "-q"])
def test_a_default_queue_that_could_not_be_stored_is_refused(queue):
    assert problem({"DEFAULT_QUEUE": queue}) == (
        "PGJOBS['DEFAULT_QUEUE'] must be 1 to 63 letters, digits, '_', '.' or '-', and begin "
        f"with a letter or digit, not {queue!r}."
    )


def test_two_heartbeats_may_be_missed_before_a_lease_expires():
    lease = timedelta(seconds=30)

    PgJobsSettings(lease_duration=lease, heartbeat_interval=lease / 3)
    assert problem({"LEASE_DURATION": lease, "HEARTBEAT_INTERVAL": timedelta(seconds=11)}) == (
        "PGJOBS['HEARTBEAT_INTERVAL'] (0:00:11) must be at most a third of "
        "PGJOBS['LEASE_DURATION'] (0:00:30), so that two renewals may be missed before a lease "
        "expires."
    )


def test_the_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_settings().concurrency = 5


@pytest.mark.parametrize(
    ("mapping", "keeps_state"),
    [({}, True), ({"LISTEN": False}, False), ({"LISTEN_DATABASE": "direct"}, False)],
)
def test_where_a_pooler_may_be_no_state_is_left_in_sessions(mapping, keeps_state):
    assert PgJobsSettings.from_mapping(mapping).keeps_state is keeps_state


def test_who_does_not_listen_needs_no_place_for_it():
    assert problem({"LISTEN": False, "LISTEN_DATABASE": "direct"}) == (
        "PGJOBS['LISTEN_DATABASE'] says where to listen, but PGJOBS['LISTEN'] is False. "
        "Remove one of them."
    )
