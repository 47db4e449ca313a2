"""What is kept of an exception: text that PostgreSQL can always store."""

from __future__ import annotations

import asyncio
import concurrent
import hashlib
import itertools
import os
import re
import traceback
from typing import Final

import asgiref

#: Longest error message, in characters.
MAX_MESSAGE: Final = 10_000

#: Longest traceback, in characters; the middle is left out.
MAX_TRACEBACK: Final = 50_000

#: Between a worker and a handler. They differ by the kind of pool, and from release to release.
_BETWEEN: Final = tuple(
    os.path.join(path, "")
    for path in (
        os.path.dirname(os.path.dirname(__file__)),
        *asgiref.__path__,
        *asyncio.__path__,
        *concurrent.__path__,
    )
)

_LINE_NUMBER: Final = re.compile(r"\bline \d+")
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")


def class_path(error: BaseException) -> str:
    """Return the importable path of an exception's class."""
    kind = type(error)
    return storable(f"{kind.__module__}.{kind.__qualname__}", 255)


def message_of(error: BaseException) -> str:
    """Return an exception's message, even of one whose ``str()`` raises."""
    try:
        # Of a subclass of str, only the characters.
        text = str.__str__(str(error))
    except BaseException as failure:
        text = f"<str() of this {type(error).__name__} raised {type(failure).__name__}>"
    return storable(text, MAX_MESSAGE)


def traceback_of(error: BaseException) -> str:
    """Return an exception's traceback, without the values of local variables."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException as failure:
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"{frames}{class_path(error)} (formatting it raised {type(failure).__name__})"
    return storable(text, MAX_TRACEBACK)


def fingerprint_of(error: BaseException) -> str:
    """Return 16 hexadecimal digits that are the same for errors of the same kind.

    Made of the exception's class and the functions it passed through, in order; line
    numbers, addresses and ids do not count, so it survives an edit elsewhere in a file.
    Neither does how deep a recursion went, nor where a worker ran the handler.
    """
    every = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in every if not frame.filename.startswith(_BETWEEN)] or every
    places = (f"{frame.filename.rpartition('/')[2]}:{frame.name}" for frame in frames)
    path = [place for place, _ in itertools.groupby(places)]
    text = "\n".join([class_path(error), *path])
    text = _VARYING.sub("N", _LINE_NUMBER.sub("line N", text))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def storable(text: str, limit: int) -> str:
    """Return ``text`` without NUL and lone surrogates, at most ``limit`` characters long."""
    text = _shortened(text, limit)
    escaped = text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    # What had to be escaped has grown.
    return _shortened(escaped, limit)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2 - 20
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
