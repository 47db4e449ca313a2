"""Arguments come back from a jsonb column as they went in, or are refused with their place."""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from io import BytesIO
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.test.utils import isolate_apps
from django.utils.safestring import mark_safe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_pgjobs.definitions.payloads import (
    MAX_DEPTH,
    decode_payload,
    decode_value,
    encode_payload,
    encode_value,
)
from django_pgjobs.exceptions import InvalidPayload, PayloadTooLarge, UndecodablePayload
from django_pgjobs.models import ActiveJob

pytestmark = pytest.mark.django_db

KIB_64 = 64 * 1024
BERLIN = ZoneInfo("Europe/Berlin")
# LMT has seconds; Lord Howe repeats half an hour; Dublin's winter time is its negative DST.
ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC",
        "Europe/Berlin",
        "Europe/Dublin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Monrovia",
        "Pacific/Apia",
    )
]


def through_jsonb(text):
    """Return what PostgreSQL makes of ``text``."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [text])
        return cursor.fetchone()[0]


def round_trip(value):
    text = encode_payload({"value": value}, max_bytes=10**9)
    return decode_payload(through_jsonb(text))["value"]


def exact(value):
    """Return ``value`` with everything that ``==`` is blind to: types, signs, zones, folds."""
    match value:
        case dict():
            seen = {key: exact(item) for key, item in value.items()}
        case list():
            seen = [exact(item) for item in value]
        case float():
            seen = value.hex()
        case Decimal():
            seen = value.as_tuple()
        case datetime():
            # A fold beside a zone shows in the offset.
            fold = value.fold if value.tzinfo is None else None
            zone = getattr(value.tzinfo, "key", None)
            seen = (value.replace(tzinfo=None, fold=0), zone, value.utcoffset(), fold)
        case time():
            seen = (value.replace(tzinfo=None, fold=0), value.utcoffset(), value.fold)
        case _:
            seen = value
    return type(value), seen


text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))
offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
datetimes = st.datetimes(timezones=st.none() | st.sampled_from(ZONES) | offsets)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**4000), max_value=10**4000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
    | datetimes
    | st.builds(lambda value, fold: value.replace(fold=fold), datetimes, st.sampled_from([0, 1]))
    | st.dates()
    | st.times(timezones=st.none() | offsets)
    | st.timedeltas()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
)
keys = text | st.sampled_from(["", "$", "$dict", "$float", "$datetime", "$unknown", "a.b"])
values = st.recursive(
    scalars, lambda items: st.lists(items) | st.dictionaries(keys, items), max_leaves=12
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_every_accepted_value_comes_back_as_it_was(value):
    assert exact(round_trip(value)) == exact(value)


DELICATE = [
    1e16,
    1e22,
    1e300,
    1.7976931348623157e308,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    0.1,
    -0.0,
    0.0,
    1.0,
    9007199254740993.0,
    9007199254740993,
    -(10**4000),
    2**63,
    True,
    Decimal("12.50"),
    Decimal("-0"),
    Decimal("1E+30"),
    Decimal("1E-30"),
    Decimal(1) / Decimal(3),
    UUID(int=0),
    timedelta.min,
    timedelta.max,
    timedelta(microseconds=-1),
    date.min,
    date.max,
    datetime.min,
    datetime.max,
    datetime(2026, 7, 1, tzinfo=UTC),
    datetime(2026, 7, 1, tzinfo=BERLIN),
    datetime(2026, 7, 1, 2, 30, fold=1),
    datetime(1930, 1, 1, tzinfo=ZoneInfo("Africa/Monrovia")),
    datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=-3, seconds=7))),
    time(23, 59, 59, 999999),
    time(2, 30, fold=1),
    time(2, 30, tzinfo=timezone(timedelta(hours=2))),
    time(2, 30, fold=1, tzinfo=UTC),
    "",
    "\x01\x1f\x7f\u2028",
    "\U0001d54f ≠ \\u0000 \\x00",
    "%s %% $1 ; --",
    [],
    {},
    [[], {}, [{}]],
    {"": {"": ""}},
    {"$float": "1.5"},
    {"$datetime": "2026-07-01"},
    {"$dict": {"$dict": {}}},
    {"$": None},
    {"$dict": 1},
    {"$float": 1, "$uuid": 2},
    {"a": {"$decimal": "NaN"}},
]


@pytest.mark.parametrize(
    "value",
    DELICATE,
    ids=[f"{number}-{type(value).__name__}" for number, value in enumerate(DELICATE)],
)
def test_a_value_that_json_or_postgresql_would_change_comes_back_as_it_was(value):
    assert exact(round_trip(value)) == exact(value)


@pytest.mark.parametrize("zone", ZONES, ids=lambda zone: zone.key)
@pytest.mark.parametrize("fold", [0, 1])
def test_each_quarter_of_an_hour_around_a_change_of_clocks_comes_back(zone, fold):
    starts = [
        datetime(2026, month, day) for month, day in [(3, 8), (3, 29), (4, 5), (10, 4), (10, 25)]
    ]
    instants = [
        (start + timedelta(minutes=15 * quarter)).replace(tzinfo=zone, fold=fold)
        for start in [*starts, datetime(2026, 11, 1), datetime(2011, 12, 30)]
        for quarter in range(-8, 32)
    ]

    returned = round_trip(instants)

    assert [exact(value) for value in returned] == [exact(value) for value in instants]
    assert [value.astimezone(UTC) for value in returned] == [
        value.astimezone(UTC) for value in instants
    ]


def test_the_deepest_accepted_nesting_comes_back():
    value = current = []
    for _ in range(MAX_DEPTH - 1):
        current.append([])
        current = current[0]

    assert round_trip(value) == value


def test_a_subclass_comes_back_as_its_base():
    class Celsius(float):
        def __float__(self):
            return 0.0

    class Shouted(str):
        __slots__ = ()

        def __str__(self):
            return self.upper()

    value = [mark_safe("<b>"), Shouted("low"), Celsius(36.6)]

    assert exact(round_trip(value)) == exact(["<b>", "low", 36.6])


def test_an_offset_of_an_unnamed_zone_comes_back_as_a_fixed_offset():
    class Odd(timezone.__base__):
        def utcoffset(self, instant):
            return timedelta(hours=5, minutes=45)

        def dst(self, instant):
            return None

        def tzname(self, instant):
            return "ODD"

    value = datetime(2026, 7, 1, tzinfo=Odd())

    assert round_trip(value) == value
    assert round_trip(value).tzinfo == timezone(timedelta(hours=5, minutes=45))


def test_the_text_is_an_object_of_the_arguments():
    text = encode_payload({"order_id": 7, "total": Decimal("9.90")}, max_bytes=KIB_64)

    assert json.loads(text) == {"order_id": 7, "total": {"$decimal": "9.90"}}


def test_an_argument_may_be_called_like_a_tag():
    arguments = {"$float": "not a number"}

    assert decode_payload(encode_payload(arguments, max_bytes=KIB_64)) == arguments


def test_one_value_comes_back():
    text = encode_value({"$uuid": [1e20]}, "result")

    assert decode_value(through_jsonb(text)) == {"$uuid": [1e20]}


class Colour(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1


class Size(StrEnum):
    SMALL = "s"


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def circular():
    value = []
    value.append(value)
    return value


REFUSED = [
    ("a\x00b", "value", "contains a NUL character, which PostgreSQL cannot store."),
    ("\ud800", "value", "contains a lone surrogate, which is no valid Unicode text."),
    ([1, {"a": "\x00"}], "value[1]['a']", "contains a NUL character"),
    ({"k\x00": 1}, r"value['k\x00']", "contains a NUL character"),
    ({"\udfff": 1}, r"value['\udfff']", "contains a lone surrogate"),
    (math.nan, "value", "is nan, which JSON does not have."),
    ([math.inf], "value[0]", "is inf, which JSON does not have."),
    ({"x": -math.inf}, "value['x']", "is -inf, which JSON does not have."),
    (Decimal("NaN"), "value", "is Decimal('NaN'), which is no number."),
    (Decimal("sNaN"), "value", "is Decimal('sNaN'), which is no number."),
    (Decimal("-Infinity"), "value", "is Decimal('-Infinity'), which is no number."),
    ({1, 2}, "value", "is a set, which cannot be stored. Pass a sorted list."),
    (frozenset(), "value", "is a frozenset, which cannot be stored. Pass a sorted list."),
    (
        (1, 2),
        "value",
        "is a tuple, which cannot be stored. Pass a list; a tuple would come back as one.",
    ),
    (b"x", "value", "is a bytes, which cannot be stored. Pass text, for instance base64."),
    (
        object,
        "value",
        "is a type, which cannot be stored. Pass plain data, or the key of a row that holds it.",
    ),
    (OrderedDict(), "value", "is a OrderedDict, which cannot be stored."),
    (defaultdict(list), "value", "is a defaultdict, which cannot be stored."),
    (1j, "value", "is a complex, which cannot be stored."),
    (Colour.RED, "value", "is the enum member <Colour.RED: 1>. Pass its value."),
    (Level.LOW, "value", "is the enum member <Level.LOW: 1>. Pass its value."),
    ([Size.SMALL], "value[0]", "is the enum member <Size.SMALL: 's'>. Pass its value."),
    ({Size.SMALL: 1}, "value", "has a key of type Size; keys must be strings."),
    ({1: 1}, "value", "has a key of type int; keys must be strings."),
    ({10**5000: 1}, "value", "has a key of type int; keys must be strings."),
    ({"a": {None: 1}}, "value['a']", "has a key of type NoneType; keys must be strings."),
    (10**4300, "value", "is an integer of more than 4,000 digits."),
    (-(10**5000), "value", "is an integer of more than 4,000 digits."),
    (
        time(1, tzinfo=timezone(timedelta(microseconds=1))),
        "value",
        "has an offset from UTC with a fraction of a second.",
    ),
    (time(1, tzinfo=BERLIN), "value", "is a time of day in a named zone"),
]


@pytest.mark.parametrize(
    ("value", "argument", "problem"),
    REFUSED,
    ids=[f"{number}-{type(row[0]).__name__}" for number, row in enumerate(REFUSED)],
)
def test_a_value_that_would_not_come_back_is_refused_with_its_place(value, argument, problem):
    with pytest.raises(InvalidPayload) as caught:
        encode_payload({"value": value}, max_bytes=KIB_64)

    assert str(caught.value).startswith(f"The argument {argument} {problem}")
    assert caught.value.argument == argument
    str(caught.value).encode()


@isolate_apps("tests.app")
def test_a_model_instance_is_refused_without_asking_it_anything():
    class Curious(ActiveJob):
        class Meta:
            app_label = "tests_app"
            proxy = True

        def __str__(self):
            return str(ActiveJob.objects.get(pk=self.pk))

    with pytest.raises(InvalidPayload) as caught:
        encode_payload({"row": [Curious(id=3)]}, max_bytes=KIB_64)

    assert str(caught.value) == (
        "The argument row[0] is an instance of tests_app.Curious. Pass its primary key."
    )


def test_a_zone_without_a_name_is_refused():
    # The smallest file of a zone: no changes, one kind of time.
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    kind = struct.pack(">lbb", 3600, 0, 0) + b"CET\0"
    zone = ZoneInfo.from_file(BytesIO(b"TZif" + bytes(16) + counts + kind))

    with pytest.raises(
        InvalidPayload, match="The argument value is in a time zone without a name"
    ):
        encode_payload({"value": datetime(2026, 1, 1, tzinfo=zone)}, max_bytes=KIB_64)


@pytest.mark.parametrize(
    "make",
    [circular, lambda: nested(20_000), lambda: nested(MAX_DEPTH)],
    ids=["circular", "very deep", "one too deep"],
)
def test_a_nesting_without_end_is_refused(make):
    value = make()

    with pytest.raises(InvalidPayload) as caught:
        encode_payload({"value": value}, max_bytes=KIB_64)

    assert str(caught.value) == "The argument 'value' is nested deeper than 64 levels."
    assert caught.value.argument == "value"


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
def test_an_argument_name_that_cannot_be_stored_is_refused(name):
    with pytest.raises(InvalidPayload) as caught:
        encode_payload({name: 1}, max_bytes=KIB_64)

    assert caught.value.argument == repr(name)
    str(caught.value).encode()


@pytest.mark.parametrize("character", ["x", "é"])
def test_the_limit_counts_the_bytes_of_the_text(character):
    count = (KIB_64 - len('{"small":1,"value":""}')) // len(character.encode())
    fits = {"small": 1, "value": character * count}
    encode_payload(fits, max_bytes=KIB_64)

    with pytest.raises(PayloadTooLarge) as caught:
        encode_payload({**fits, "value": character * (count + 1)}, max_bytes=KIB_64)

    assert caught.value.limit == KIB_64
    assert str(caught.value) == (
        f"The arguments take {caught.value.size} bytes, more than the 65536 that "
        "PGJOBS['MAX_PAYLOAD_BYTES'] allows; the largest is 'value'. Store the data in a table "
        "of your own and pass its key."
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "The payload is a list, not an object of arguments."),
        ("{", "The payload cannot be decoded: JSONDecodeError"),
        ('{"a": {"$new": 1}}', "The payload cannot be decoded: KeyError('$new')."),
        ('{"a": {"$uuid": "x"}}', "The payload cannot be decoded: ValueError"),
        ('{"a": {"$uuid": 1}}', "The payload cannot be decoded: "),
        ('{"a": {"$dict": 1}}', "The payload cannot be decoded: "),
        ('{"a": {"$datetime": null}}', "The payload cannot be decoded: "),
        ('{"a": {"$datetime": "2026-01-01T00:00:00+00:00[Mars/X]"}}', "The payload cannot be"),
        ('{"a": {"$datetime": "2026-01-01T00:00:00+00:00[Europe]"}}', "The payload cannot be"),
        ('{"a": {"$decimal": "x"}}', "The payload cannot be decoded: "),
        ('{"a": {"$timedelta": [1e300]}}', "The payload cannot be decoded: "),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "The payload cannot be decoded: Recurs"),
    ],
    ids=lambda value: value[-50:],
)
def test_a_payload_of_another_hand_is_undecodable(text, problem):
    with pytest.raises(UndecodablePayload) as caught:
        decode_payload(text)

    assert str(caught.value).startswith(problem)
