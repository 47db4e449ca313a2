"""Types of the commands' options."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import datetime

from django.utils import timezone
from django.utils.dateparse import parse_datetime


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def above_zero(text: str) -> float:
    """Return a number above zero."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def instant(text: str) -> datetime:
    """Return a date with a time; without an offset it is in the project's time zone."""
    try:
        value = parse_datetime(text)
    except ValueError:
        value = None
    if value is None:
        raise ArgumentTypeError(f"must be a date with a time, 2026-02-28T03:00, not {text!r}")
    return value if timezone.is_aware(value) else timezone.make_aware(value)
