"""Arguments to JSON and back, exactly.

Accepted are str, int, float, bool, None, list and dict with str keys, and datetime, date,
time, timedelta, Decimal and UUID. JSON has no form for the latter six; each becomes an
object of one key that begins with ``$``, such as ``{"$decimal": "12.50"}``. A dict of the
caller's that looks like one is wrapped as ``{"$dict": …}``.

What comes back is equal and of the same type, with three exceptions: jsonb does not keep the
order of keys, a subclass comes back as its base, and a time zone that is no ``ZoneInfo`` as
its offset.

PostgreSQL stores numbers of jsonb as numeric, which knows neither ``-0.0`` nor the
difference between ``1e16`` and ``10000000000000000``; such floats are tagged too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Model

from ..exceptions import InvalidPayload, PayloadTooLarge, UndecodablePayload

#: Levels of nesting.
MAX_DEPTH: Final = 64

#: json refuses to write longer integers, see sys.set_int_max_str_digits.
_MAX_INT_BITS: Final = 14_000

#: What the parsers of this module raise when somebody else wrote the text.
_UNDECODABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)

#: Ends a naive time of day that a clock shows for the second time.
_FOLD: Final = "[fold=1]"

_HINTS: Final[dict[type, str]] = {
    tuple: "Pass a list; a tuple would come back as one.",
    set: "Pass a sorted list.",
    frozenset: "Pass a sorted list.",
    bytes: "Pass text, for instance base64.",
}

Path = tuple[Any, ...]


def encode_payload(arguments: Mapping[str, Any], *, max_bytes: int) -> str:
    """Return the JSON text of ``arguments``.

    Args:
        arguments: by parameter name.
        max_bytes: limit of the encoded text in UTF-8.

    Raises:
        InvalidPayload: a value cannot be stored so that it comes back as it was. The
            error names its place.
        PayloadTooLarge: the text exceeds ``max_bytes``.
    """
    text = encode(
        {_encode_text(name, (name,)): _encode(item, (name,)) for name, item in arguments.items()}
    )
    size = len(text) if text.isascii() else len(text.encode())
    if size > max_bytes:
        largest = max(arguments, key=lambda name: len(encode(_encode(arguments[name], (name,)))))
        raise PayloadTooLarge(
            f"The arguments take {size} bytes, more than the {max_bytes} that "
            f"PGJOBS['MAX_PAYLOAD_BYTES'] allows; the largest is {largest!r}. Store the data in "
            "a table of your own and pass its key.",
            size=size,
            limit=max_bytes,
        )
    return text


def encode_value(value: Any, name: str) -> str:
    """Return the JSON text of one value, called ``name`` in errors.

    Raises:
        InvalidPayload: as for :func:`encode_payload`.
    """
    return encode(_encode(value, (name,)))


def decode_payload(text: str) -> dict[str, Any]:
    """Return the arguments of :func:`encode_payload`'s text.

    Raises:
        UndecodablePayload: the text was not written by it.
    """
    try:
        arguments = _parse(text)
        if not isinstance(arguments, dict):
            raise UndecodablePayload(
                f"The payload is a {type(arguments).__name__}, not an object of arguments."
            )
        return {name: _decode(value) for name, value in arguments.items()}
    except _UNDECODABLE as error:
        raise UndecodablePayload(f"The payload cannot be decoded: {error!r}.") from error


def decode_value(text: str) -> Any:
    """Return the value of :func:`encode_value`'s text.

    Raises:
        UndecodablePayload: the text was not written by it.
    """
    return decode_payload(f'{{"value": {text}}}')["value"]


def _parse(text: str) -> Any:
    # Ours has no white space around it, and json.loads looks for that for longer than it takes
    # to decode a few arguments.
    if text.startswith("{"):
        value, end = _decode_object(text)
        if end == len(text):
            return value
    return json.loads(text)


_decode_object: Final = json.JSONDecoder().raw_decode

encode: Final[Callable[[Any], str]] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


def _encode(value: Any, path: Path) -> Any:
    if value is None or value is True or value is False:
        return value
    encoder = _ENCODERS.get(type(value)) or _encoder_of_subclass(value, path)
    return encoder(value, path)


def _encode_text(value: str, path: Path) -> str:
    if "\x00" in value:
        raise _refusal(path, "contains a NUL character, which PostgreSQL cannot store.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refusal(
                path, "contains a lone surrogate, which is no valid Unicode text."
            ) from None
    return value


def _encode_int(value: int, path: Path) -> int:
    if value.bit_length() > _MAX_INT_BITS:
        raise _refusal(path, "is an integer of more than 4,000 digits.")
    return value


def _encode_float(value: float, path: Path) -> Any:
    if not isfinite(value):
        raise _refusal(path, f"is {float(value)!r}, which JSON does not have.")
    text = float.__repr__(value)
    return {"$float": text} if "e+" in text or text == "-0.0" else value


def _encode_list(value: list[Any], path: Path) -> list[Any]:
    _check_depth(path)
    return [_encode(item, (*path, index)) for index, item in enumerate(value)]


def _encode_dict(value: dict[Any, Any], path: Path) -> dict[str, Any]:
    _check_depth(path)
    encoded = {}
    for key, item in value.items():
        if not isinstance(key, str) or isinstance(key, Enum):
            raise _refusal(path, f"has a key of type {type(key).__name__}; keys must be strings.")
        encoded[_encode_text(key, (*path, key))] = _encode(item, (*path, key))
    if len(encoded) == 1 and next(iter(encoded)).startswith("$"):
        return {"$dict": encoded}
    return encoded


def _encode_datetime(value: datetime, path: Path) -> dict[str, str]:
    _check_offset(value.utcoffset(), path)
    text = datetime.isoformat(value)
    if value.tzinfo is None:
        return {"$datetime": text + _FOLD * value.fold}
    if isinstance(value.tzinfo, ZoneInfo):
        if value.tzinfo.key is None:
            raise _refusal(path, "is in a time zone without a name.")
        text += f"[{value.tzinfo.key}]"
    return {"$datetime": text}


def _encode_time(value: time, path: Path) -> dict[str, str]:
    if isinstance(value.tzinfo, ZoneInfo):
        raise _refusal(path, "is a time of day in a named zone, which has no fixed offset.")
    _check_offset(value.utcoffset(), path)
    return {"$time": time.isoformat(value) + _FOLD * value.fold}


def _check_offset(offset: timedelta | None, path: Path) -> None:
    if offset is not None and offset.microseconds:
        # fromisoformat does not read each of them.
        raise _refusal(path, "has an offset from UTC with a fraction of a second.")


def _encode_decimal(value: Decimal, path: Path) -> dict[str, str]:
    if not value.is_finite():
        raise _refusal(path, f"is {value!r}, which is no number.")
    return {"$decimal": str(value)}


_ENCODERS: Final[dict[type, Callable[[Any, Path], Any]]] = {
    str: _encode_text,
    int: _encode_int,
    float: _encode_float,
    list: _encode_list,
    dict: _encode_dict,
    datetime: _encode_datetime,
    date: lambda value, path: {"$date": date.isoformat(value)},
    time: _encode_time,
    timedelta: lambda value, path: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: _encode_decimal,
    UUID: lambda value, path: {"$uuid": str(value)},
}


def _encoder_of_subclass(value: Any, path: Path) -> Callable[[Any, Path], Any]:
    if isinstance(value, Model):
        # Not its repr(), which may query the database.
        raise _refusal(path, f"is an instance of {value._meta.label}. Pass its primary key.")
    if isinstance(value, Enum):
        raise _refusal(path, f"is the enum member {value!r}. Pass its value.")
    # A subclass is stored as its base: json reads the value itself, past its methods.
    # datetime comes before date, whose subclass it is.
    for base in (str, int, float, datetime, date, time, timedelta, Decimal, UUID):
        if isinstance(value, base):
            return _ENCODERS[base]
    hint = _HINTS.get(type(value), "Pass plain data, or the key of a row that holds it.")
    raise _refusal(path, f"is a {type(value).__name__}, which cannot be stored. {hint}")


def _check_depth(path: Path) -> None:
    if len(path) > MAX_DEPTH:
        raise InvalidPayload(
            f"The argument {path[0]!r} is nested deeper than {MAX_DEPTH} levels.",
            argument=str(path[0]),
        )


def _refusal(path: Path, problem: str) -> InvalidPayload:
    name = str(path[0])
    # Names come from callers too, where the handler takes **options.
    start = name if name.isidentifier() else repr(name)
    argument = start + "".join(f"[{part!r}]" for part in path[1:])
    return InvalidPayload(f"The argument {argument} {problem}", argument=argument)


def _decode(value: Any) -> Any:
    if type(value) is list:
        return [_decode(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, item),) = value.items()
        if key.startswith("$"):
            return _DECODERS[key](item)
    return {key: _decode(item) for key, item in value.items()}


def _decode_datetime(text: str) -> datetime:
    if text.endswith(_FOLD):
        return datetime.fromisoformat(text.removesuffix(_FOLD)).replace(fold=1)
    instant, bracket, zone = text.partition("[")
    if not bracket:
        return datetime.fromisoformat(instant)
    fixed = datetime.fromisoformat(instant)
    local = fixed.replace(tzinfo=ZoneInfo(zone.removesuffix("]")))
    # In the hour that a zone repeats, the offset tells which of the two is meant.
    return local if local.utcoffset() == fixed.utcoffset() else local.replace(fold=1)


def _decode_time(text: str) -> time:
    if text.endswith(_FOLD):
        return time.fromisoformat(text.removesuffix(_FOLD)).replace(fold=1)
    return time.fromisoformat(text)


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$float": float,
    "$datetime": _decode_datetime,
    "$date": date.fromisoformat,
    "$time": _decode_time,
    "$timedelta": lambda parts: timedelta(*parts),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$dict": lambda items: {key: _decode(item) for key, item in items.items()},
}
