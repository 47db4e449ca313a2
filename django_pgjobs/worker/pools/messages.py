"""What a worker and its processes say to each other: JSON text, never pickles.

::

    worker   -> process   a ClaimedJob
    process  -> worker    Ready, then for each job Said, any number of times, and Done

Beside it runs a one-way pipe on which the worker says what must not wait for a handler: that
the job is not wanted any more, that the worker stops, and, by its end, that the worker is dead.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any, Final

from ...states import Outcome
from ...store.claim import ClaimedJob
from ...store.finish import Ending, Success
from ..recording import Recorded


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """The process has loaded the project and waits for its first job."""


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """A job has run.

    Attributes:
        outcome: of the attempt.
        memory: bytes of the process now.
    """

    outcome: Success | Ending | Recorded
    memory: int


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What a handler has said about its progress."""

    current: float
    total: float | None
    message: str


Message = ClaimedJob | Ready | Said | Done

_CLASSES: Final[dict[str, type[Any]]] = {
    cls.__name__: cls for cls in (ClaimedJob, Ready, Said, Done, Success, Ending, Recorded)
}


def encode(message: Message) -> bytes:
    """Return the text of a message."""
    return json.dumps(message, default=_encode).encode()


def decode(text: bytes) -> Any:
    """Return the message that a text holds."""
    return json.loads(text, object_hook=_decode)


def _encode(value: Any) -> dict[str, Any]:
    if isinstance(value, timedelta):
        return {"$": "timedelta", "microseconds": value // timedelta(microseconds=1)}
    values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"$": type(value).__name__, **values}


def _decode(values: dict[str, Any]) -> Any:
    kind = values.pop("$")
    if kind == "timedelta":
        return timedelta(microseconds=values["microseconds"])
    if kind == Ending.__name__:
        values["outcome"] = Outcome(values["outcome"])
    return _CLASSES[kind](**values)
