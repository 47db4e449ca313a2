"""What may be typed into the search boxes: exact values of indexed columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from .base import BIGINT

#: Words of a search and the columns they stand for.
ID: Final = {"id": "id"}
_JOBS: Final = ID | {"job": "job_name", "queue": "queue_name", "tenant": "tenant_id"}
FINISHED: Final = _JOBS | {"fingerprint": "fingerprint"}
UNFINISHED: Final = _JOBS | {"key": "idempotency_key"}
ATTEMPTS: Final = {"id": "job_id"}

_NUMBERS: Final = frozenset({"id", "job_id", "tenant_id"})
_TERM: Final = re.compile(r'\s*(?:(?P<word>[a-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))')
_NUMBER: Final = re.compile(r"#?(-?[0-9]{1,19})")


class SearchError(Exception):
    """A text is no search. The message says why, to the user."""


def parse(text: str, words: Mapping[str, str]) -> dict[str, Any]:
    """Return the conditions that a text such as ``queue:email tenant:3`` asks for.

    A number alone is an id; a value with spaces stands in double quotes.

    Args:
        text: what was typed.
        words: the words known here, and their columns.

    Raises:
        SearchError: it cannot be understood.
    """
    conditions: dict[str, Any] = {}
    rest = text.strip()
    while rest:
        term = _TERM.match(rest)
        if term is None:
            raise SearchError(_("“%(text)s” is no search.") % {"text": rest})
        column, value = _condition(term, words)
        if conditions.setdefault(column, value) != value:
            raise SearchError(_("One job cannot match two values of the same kind."))
        rest = rest[term.end() :].lstrip()
    return conditions


def _condition(term: re.Match[str], words: Mapping[str, str]) -> tuple[str, Any]:
    value = term["bare"] if term["quoted"] is None else term["quoted"]
    column = words.get(term["word"] or "id")
    if column is None or (term["word"] is None and not _NUMBER.fullmatch(value)):
        raise SearchError(
            _("“%(text)s” is no search. Type a number, or one of: %(words)s.")
            % {"text": term[0].strip(), "words": ", ".join(f"{word}:" for word in words)}
        )
    return column, _whole_number(value) if column in _NUMBERS else value


def _whole_number(value: str) -> int:
    match = _NUMBER.fullmatch(value)
    if match is None or int(match[1]) not in BIGINT:
        raise SearchError(_("“%(text)s” is no number that can occur.") % {"text": value})
    return int(match[1])
