"""``@job``, and what it makes of a function."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, overload

from asgiref.sync import markcoroutinefunction, sync_to_async

from ..definitions.breakers import Breaker, RetryBudget
from ..definitions.definition import JobDefinition
from ..definitions.registry import registry
from ..definitions.retries import BackoffPolicy
from ..exceptions import InvalidHandler, InvalidPayload, InvalidSchedule
from ..store.enqueue import NewJob
from .enqueueing import EnqueuedJob, enqueue_all, enqueue_one, new_job
from .options import EnqueueOptions
from .schedules import SCHEDULE_OPTIONS, declare_schedule

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job that is ready to be enqueued: made by ``prepare``, taken by ``enqueue_many``."""

    row: NewJob


class JobRequest:
    """A definition with options, ready to enqueue."""

    def __init__(self, definition: JobDefinition, options: EnqueueOptions) -> None:
        self.definition = definition
        self.options = options

    def using(self, /, **options: Any) -> JobRequest:
        """Return the same with other options; see :class:`EnqueueOptions`.

        Raises:
            InvalidOption: there is no such option, or its value makes no sense.
        """
        return JobRequest(self.definition, self.options.replace(**options))

    def prepare(self, /, *args: Any, **kwargs: Any) -> PreparedJob:
        """Bind and encode the arguments, for ``enqueue_many``. Writes nothing.

        Raises:
            InvalidPayload: they do not fit the handler, or cannot be stored.
        """
        arguments = self.definition.bind(args, kwargs)
        return PreparedJob(new_job(self.definition, self.options, arguments))

    def enqueue(self, /, *args: Any, **kwargs: Any) -> EnqueuedJob:
        """Enqueue a job in the transaction that is open on ``PGJOBS["DATABASE"]``.

        It exists when that transaction commits, and never if it rolls back.

        Raises:
            InvalidPayload: the arguments do not fit the handler, or cannot be stored.
                Nothing was written; the transaction is usable.
        """
        return enqueue_one(self.prepare(*args, **kwargs).row)

    async def aenqueue(self, /, *args: Any, **kwargs: Any) -> EnqueuedJob:
        """Enqueue from async code, in the transaction of the thread that Django's ORM uses."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)(*args, **kwargs)


class Job(JobRequest, Generic[P, R]):
    """A declared job. Calling it calls the function."""

    def __init__(self, definition: JobDefinition) -> None:
        super().__init__(definition, EnqueueOptions())
        # Without the function's attributes: one called enqueue or options would hide ours.
        update_wrapper(self, definition.function, updated=())
        if definition.is_async:
            # For async_to_sync and whoever else asks before calling.
            markcoroutinefunction(self)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.definition.name

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.definition.function(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<Job {self.name}>"


@overload
def job(function: Callable[P, R], /) -> Job[P, R]: ...


@overload
def job(
    *,
    name: str | None = None,
    queue: str | None = None,
    priority: int = 0,
    max_attempts: int | None = None,
    timeout: timedelta | None = None,
    progress_timeout: timedelta | None = None,
    retry_on: type[Exception] | Iterable[type[Exception]] = (),
    discard_on: type[Exception] | Iterable[type[Exception]] = (),
    backoff: BackoffPolicy | None = None,
    breaker: Breaker | str | None = None,
    retry_budget: RetryBudget | float | None = None,
    payload_version: int = 1,
    atomic: bool = False,
    schema: type[Any] | None = None,
    pool: str | None = None,
    cron: str = ...,
    timezone: str | None = None,
    catch_up: str = "skip",
    catch_up_limit: int = 100,
    overlap: str = "allow",
    jitter: timedelta = timedelta(0),
) -> Callable[[Callable[P, R]], Job[P, R]]: ...


def job(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a function of a ``jobs.py`` as a job.

    Args:
        function: the handler, sync or async. It may take a JobContext first.
        **options: the fields of :class:`JobDefinition`: name (the function's path
            unless given), queue, priority, max_attempts, timeout, progress_timeout, retry_on,
            discard_on, backoff, breaker, retry_budget, payload_version, atomic, schema, pool. A
            job that is to run
            again and again takes cron, timezone, catch_up, catch_up_limit, overlap and jitter as
            well: see :class:`ScheduleOptions`.

    Raises:
        InvalidHandler: the function cannot be a handler, or an option makes no sense.
        InvalidSchedule: an option of the schedule makes no sense.
        DuplicateJobName: another function has the name.
    """
    if function is not None:
        return _declare(function, {})
    return lambda handler: _declare(handler, options)


def schedule(
    job: Job[..., Any],
    *,
    cron: str,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """Declare a schedule of a job, in the ``jobs.py`` of an app. A job may have several.

    ``manage.py migrate`` writes it to the database.

    Args:
        job: what ``@job`` returned.
        cron: when; five fields, or six with the seconds at the end, or ``@daily`` and the like.
        name: unique among the schedules of a tenant; the job's unless given.
        arguments: of the handler, by name.
        **options: the other fields of :class:`ScheduleOptions`: timezone, tenant, queue, priority,
            max_attempts, catch_up, catch_up_limit, overlap, jitter.

    Raises:
        InvalidSchedule: it makes no sense, its arguments do not fit the handler, or another one
            has the name.
    """
    if not isinstance(job, Job):
        raise InvalidSchedule(f"schedule() takes what @job returned, not {job!r}.")
    declare_schedule(job.definition, name=name, arguments=arguments, cron=cron, **options)


def enqueue(name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> EnqueuedJob:
    """Enqueue the job called ``name``, as its own ``using(**options).enqueue`` would.

    Raises:
        UnknownJob: no job of that name is registered in this process.
        InvalidOption: an option does not exist, or its value makes no sense.
        InvalidPayload: the arguments do not fit the handler, or cannot be stored.
    """
    request = JobRequest(registry.get(name), EnqueueOptions().replace(**options))
    return request.enqueue(**_by_name(name, arguments))


def enqueue_many(jobs: Iterable[PreparedJob]) -> list[EnqueuedJob]:
    """Enqueue many prepared jobs at once: all of them or, after an error, none.

    Args:
        jobs: made by ``prepare``, of any definitions.

    Returns:
        One for each, in the order given.

    Raises:
        TypeError: one of them was not made by ``prepare``. Nothing was written.
    """
    return enqueue_all([_row_of(prepared) for prepared in jobs])


def _by_name(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    if arguments is None:
        return {}
    if isinstance(arguments, Mapping) and all(isinstance(key, str) for key in arguments):
        return dict(arguments)
    raise InvalidPayload(
        f"The arguments of {name} must be a dict with the names of parameters as keys, "
        f"not {arguments!r}."
    )


def _row_of(prepared: PreparedJob) -> NewJob:
    if isinstance(prepared, PreparedJob):
        return prepared.row
    raise TypeError(f"enqueue_many takes what prepare() returns, not {prepared!r}.")


def _declare(function: Callable[..., Any], options: dict[str, Any]) -> Job[Any, Any]:
    known = (*_OPTIONS, *sorted(SCHEDULE_OPTIONS))
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, n=1)
            guess = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
            raise InvalidHandler(f"@job has no option {option!r}. {guess}")
    of_schedule = {name: options[name] for name in options if name in SCHEDULE_OPTIONS}
    options = {name: options[name] for name in options if name not in SCHEDULE_OPTIONS}
    options = {"name": None, **options}
    if options["name"] is None:
        options["name"] = _default_name(function)
    definition = JobDefinition(function=function, **options)
    registry.add(definition)
    if of_schedule:
        declare_schedule(definition, **of_schedule)
    return Job(definition)


def _default_name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "?")
    return f"{module}.{getattr(function, '__qualname__', repr(function))}"


_OPTIONS = tuple(
    field.name for field in fields(JobDefinition) if field.init and field.name != "function"
)
