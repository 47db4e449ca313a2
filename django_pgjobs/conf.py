"""The PGJOBS setting: one dict, read into one frozen dataclass."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

#: Names of queues: letters, digits, ``_``, ``.``, ``-``; up to 63 characters.
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

#: Most executions of a job.
MAX_ATTEMPTS: Final = 10_000

#: Longer than any duration that makes sense, and short enough to be added to any clock.
LONGEST_DURATION: Final = timedelta(days=36_525)

#: Bytes of the name of a code base.
_LONGEST_OWNER: Final = 63

#: What the columns hold; elsewhere a number must fit PostgreSQL's integer.
_MOST: Final = {"default_max_attempts": MAX_ATTEMPTS, "default_quota_weight": 1000}
_MOST_INTEGER: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PgJobsSettings:
    """The PGJOBS setting, validated.

    Raises:
        ImproperlyConfigured: a value has the wrong type or makes no sense.
    """

    #: Database alias that holds the tables.
    database: str = "default"
    #: Queue of jobs whose declaration names none.
    default_queue: str = "default"
    #: Executions of a job before it is dead, unless its declaration says otherwise.
    default_max_attempts: int = 3
    #: Share of a tenant without a row in ``tenant_config``.
    default_quota_weight: int = 10
    #: Ceiling of the first retry's delay.
    backoff_base: timedelta = timedelta(seconds=2)
    #: Highest ceiling of a retry's delay.
    backoff_cap: timedelta = timedelta(minutes=10)
    #: Bytes of a job's encoded arguments, and of its result.
    max_payload_bytes: int = 64 * 1024
    #: Jobs a worker runs at a time.
    concurrency: int = 10
    #: Jobs a worker runs at a time in processes; None for the number of processors.
    process_concurrency: int | None = None
    #: A process is replaced after so many jobs; None for no limit.
    process_max_jobs: int | None = None
    #: A process is replaced when it has grown to so many bytes; None for no limit.
    process_max_memory_bytes: int | None = None
    #: Handlers defined with ``async def`` that a worker runs at a time, in its event loop.
    async_concurrency: int = 100
    #: Threads in which those handlers use the ORM, each with a connection of its own.
    async_threads: int = 4
    #: Dotted paths of the middleware around handlers, the outermost first.
    middleware: tuple[str, ...] = ()
    #: Most jobs taken by one claim.
    claim_batch_size: int = 200
    #: How long an attempt is believed alive without a renewal.
    lease_duration: timedelta = timedelta(minutes=5)
    #: Between two renewals; at most a third of the lease.
    heartbeat_interval: timedelta = timedelta(seconds=30)
    #: Longest wait of an idle worker between two looks at the queue.
    poll_interval: timedelta = timedelta(seconds=1)
    #: Whether producers wake sleeping workers with NOTIFY. False behind a pooler in
    #: transaction mode: workers then only poll, and leave no state in server sessions.
    listen: bool = True
    #: Alias of the same database to listen on, past the pooler that ``database`` goes through.
    listen_database: str | None = None
    #: Whether queries of handlers say in a comment for which job they are.
    comment_queries: bool = True
    #: Longest run of a statement of workers and maintenance.
    statement_timeout: timedelta = timedelta(seconds=30)
    #: How long a worker told to stop lets running jobs go on.
    shutdown_timeout: timedelta = timedelta(seconds=30)
    #: How long a handler may go on after its timeout before its thread is written off or its
    #: process is killed.
    timeout_grace: timedelta = timedelta(seconds=10)
    #: Between two runs of the reaper.
    reaper_interval: timedelta = timedelta(seconds=10)
    #: How long finished jobs and attempts are kept; None for ever.
    history_retention: timedelta | None = timedelta(days=90)
    #: Name of this code base, where several share the tables: each removes only the
    #: schedules that it has declared itself.
    schedule_owner: str = "project"
    #: Days of history partitions made ahead.
    partitions_ahead: int = 7

    @property
    def keeps_state(self) -> bool:
        """True when connections to ``database`` may leave state in their server session."""
        return self.listen and self.listen_database is None

    def __post_init__(self) -> None:
        _check_types(self)
        _check_positive(self)
        _check_limits(self)
        _check_middleware(self.middleware)
        if not QUEUE_NAME.fullmatch(self.default_queue):
            raise ImproperlyConfigured(
                "PGJOBS['DEFAULT_QUEUE'] must be 1 to 63 letters, digits, '_', '.' or '-', and "
                f"begin with a letter or digit, not {self.default_queue!r}."
            )
        if not 1 <= len(self.schedule_owner.encode()) <= _LONGEST_OWNER:
            raise ImproperlyConfigured(
                f"PGJOBS['SCHEDULE_OWNER'] must be text of 1 to {_LONGEST_OWNER} bytes, "
                f"not {self.schedule_owner!r}."
            )
        if self.heartbeat_interval * 3 > self.lease_duration:
            raise ImproperlyConfigured(
                f"PGJOBS['HEARTBEAT_INTERVAL'] ({self.heartbeat_interval}) must be at most a "
                f"third of PGJOBS['LEASE_DURATION'] ({self.lease_duration}), so that two "
                "renewals may be missed before a lease expires."
            )
        if self.listen_database is not None and not self.listen:
            raise ImproperlyConfigured(
                "PGJOBS['LISTEN_DATABASE'] says where to listen, but PGJOBS['LISTEN'] is False. "
                "Remove one of them."
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> PgJobsSettings:
        """Return the settings of ``mapping``, whose keys are the fields in upper case.

        Raises:
            ImproperlyConfigured: a key does not exist, or a value is wrong.
        """
        if not isinstance(mapping, Mapping):
            raise ImproperlyConfigured(f"PGJOBS must be a dict, not {mapping!r}.")
        known = {field.name.upper(): field.name for field in dataclasses.fields(cls)}
        for key in mapping:
            if key not in known:
                raise ImproperlyConfigured(f"Unknown PGJOBS key {key!r}.{_guess(key, known)}")
        if isinstance(mapping.get("MIDDLEWARE"), list):
            mapping = {**mapping, "MIDDLEWARE": tuple(mapping["MIDDLEWARE"])}
        return cls(**{known[key]: value for key, value in mapping.items()})


@cache
def get_settings() -> PgJobsSettings:
    """Return the project's settings. Read on first use and again when PGJOBS changes.

    Raises:
        ImproperlyConfigured: PGJOBS has an unknown key or a wrong value.
    """
    return PgJobsSettings.from_mapping(getattr(settings, "PGJOBS", {}))


def _guess(key: object, known: Mapping[str, str]) -> str:
    matches = difflib.get_close_matches(str(key).upper(), known, n=1)
    return f" Did you mean {matches[0]!r}?" if matches else f" Known: {', '.join(sorted(known))}."


_TYPES: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in (bool, int, str, timedelta)}


def _check_types(values: PgJobsSettings) -> None:
    for field in dataclasses.fields(values):
        value = getattr(values, field.name)
        expected = _TYPES.get(str(field.type).removesuffix(" | None"))
        if expected is None or (value is None and "None" in str(field.type)):
            continue
        if not isinstance(value, expected) or isinstance(value, bool) is not (expected is bool):
            raise ImproperlyConfigured(
                f"PGJOBS[{field.name.upper()!r}] must be a {expected.__name__}, not {value!r}."
            )


def _check_middleware(paths: object) -> None:
    if not (isinstance(paths, tuple) and all(isinstance(path, str) for path in paths)):
        given = list(paths) if isinstance(paths, tuple) else paths
        raise ImproperlyConfigured(
            f"PGJOBS['MIDDLEWARE'] must be a list of dotted paths, not {given!r}."
        )


def _check_positive(values: PgJobsSettings) -> None:
    zero_allowed = {"shutdown_timeout", "history_retention", "backoff_base"}
    for field in dataclasses.fields(values):
        value = getattr(values, field.name)
        if not isinstance(value, (int, timedelta)) or isinstance(value, bool):
            continue
        sign = _sign(value)
        if sign < 0 or (sign == 0 and field.name not in zero_allowed):
            raise ImproperlyConfigured(
                f"PGJOBS[{field.name.upper()!r}] must be greater than zero, but is {value!r}."
            )


def _sign(value: int | timedelta) -> int:
    number = value if isinstance(value, int) else value / timedelta(microseconds=1)
    return (number > 0) - (number < 0)


def _check_limits(values: PgJobsSettings) -> None:
    for field in dataclasses.fields(values):
        value = getattr(values, field.name)
        limit = (
            LONGEST_DURATION
            if isinstance(value, timedelta)
            else _MOST.get(field.name, _MOST_INTEGER)
        )
        if isinstance(value, (int, timedelta)) and value > limit:  # type: ignore[operator]
            raise ImproperlyConfigured(
                f"PGJOBS[{field.name.upper()!r}] must be at most {limit}, but is {value!r}."
            )


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "PGJOBS":
        get_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_pgjobs.conf")
