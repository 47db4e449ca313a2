"""What ``using`` accepts."""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from ..conf import LONGEST_DURATION
from ..definitions.definition import (
    is_text,
    overriding_problems,
)
from ..exceptions import InvalidOption

MAX_KEY_BYTES: Final = 255
# Not the least bigint, as with priorities.
_BIGINT: Final = range(-(2**63) + 1, 2**63)

# Bounds that no real job comes near. What lies further out, PostgreSQL cannot store or
# Python cannot read again.
_EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9800, 1, 1, tzinfo=UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """How one job is enqueued, where it differs from its definition.

    Attributes:
        queue: another queue.
        priority: another priority.
        max_attempts: another number of attempts.
        delay: earliest start, from the time of the enqueue on the server's clock.
        at: earliest start, as an instant. A naive datetime is taken in the default time
            zone, as Django does.
        tenant: whose share of the workers it uses; 0 for none.
        idempotency_key: while a job of this tenant and name with the same key is
            unfinished, enqueueing returns that job.
        expires: latest start, as an instant or as a time from its earliest start. A job
            that has not started by then is cancelled.
        tags: words to find the job by, kept in ``meta``.

    Raises:
        InvalidOption: a value makes no sense.
    """

    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    delay: timedelta | None = None
    at: datetime | None = None
    tenant: int = 0
    idempotency_key: str | None = None
    expires: datetime | timedelta | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InvalidOption(problem)

    def replace(self, **changes: Any) -> EnqueueOptions:
        """Return these options with ``changes``.

        Raises:
            InvalidOption: there is no such option, or a value makes no sense.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                guess = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
                raise InvalidOption(f"using() has no option {name!r}. {guess}")
        if "tags" in changes:
            changes["tags"] = _tuple_of_tags(changes["tags"])
        return dataclasses.replace(self, **changes)


def aware(value: datetime) -> datetime:
    """Return ``value`` as an instant; a naive one is in the default time zone."""
    if timezone.is_aware(value):
        return value
    if settings.USE_TZ:
        warnings.warn(
            f"A job was enqueued with the naive datetime {value!r} while time zone support is "
            "active; it is taken in the default time zone.",
            RuntimeWarning,
            # Of who called enqueue, through prepare, new_job and this.
            stacklevel=5,
        )
    return timezone.make_aware(value, timezone.get_default_timezone())


def _tuple_of_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidOption(f"tags must be a list of strings, not {tags!r}.")
    return tuple(tags)


def _problems(options: EnqueueOptions) -> list[str]:
    problems = overriding_problems(options.queue, options.priority, options.max_attempts)
    return problems + _time_problems(options) + _key_problems(options)


def _time_problems(options: EnqueueOptions) -> list[str]:
    problems = []
    delay, at, expires = options.delay, options.at, options.expires
    if delay is not None and at is not None:
        problems.append("Give either delay or at, not both.")
    if delay is not None and not _is_duration(delay, at_least=timedelta(0)):
        problems.append(f"delay must be a timedelta of 0 to 36525 days, not {delay!r}.")
    if at is not None:
        problems += _instant_problems("at", at, "a datetime")
    if isinstance(expires, timedelta):
        if not _is_duration(expires, at_least=timedelta.resolution):
            problems.append(f"expires must be above 0 and at most 36525 days, not {expires!r}.")
    elif expires is not None:
        problems += _instant_problems("expires", expires, "a datetime or a timedelta")
    return problems


def _is_duration(value: object, *, at_least: timedelta) -> bool:
    return isinstance(value, timedelta) and at_least <= value <= LONGEST_DURATION


def _instant_problems(name: str, value: object, wanted: str) -> list[str]:
    if not isinstance(value, datetime):
        return [f"{name} must be {wanted}, not {value!r}."]
    naive = value.replace(tzinfo=UTC)
    if not _EARLIEST < naive < _LATEST:
        return [f"{name} must be between the years 1900 and 9800, not {value!r}."]
    return []


def _key_problems(options: EnqueueOptions) -> list[str]:
    problems = []
    if type(options.tenant) is not int or options.tenant not in _BIGINT:
        problems.append(
            f"tenant must be a whole number of at most 63 bits, not {options.tenant!r}."
        )
    key = options.idempotency_key
    if key is not None and not is_text(key, MAX_KEY_BYTES):
        problems.append(
            f"idempotency_key must be text of 1 to {MAX_KEY_BYTES} bytes without NUL, not {key!r}."
        )
    problems += [
        f"A tag must be text of 1 to {MAX_KEY_BYTES} bytes without NUL, not {tag!r}."
        for tag in options.tags
        if not is_text(tag, MAX_KEY_BYTES)
    ]
    return problems
