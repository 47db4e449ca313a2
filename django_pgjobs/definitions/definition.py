"""A definition: the registered function and its policy."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from ..conf import MAX_ATTEMPTS, QUEUE_NAME
from ..exceptions import InvalidHandler, InvalidPayload
from .breakers import Breaker, RetryBudget, breaker_of, budget_of, guard_problems
from .pools import ASYNC, POOLS
from .retries import BackoffPolicy, Exceptions, exceptions_of, retry_problems

#: Longest name of a job, in bytes of UTF-8.
MAX_NAME_BYTES: Final = 255

# Not the least smallint: bound on the client's side it reads -32768::smallint, whose minus comes
# after the cast.
PRIORITIES: Final = range(-32_767, 32_768)

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


# eq=False: compared and hashed by identity, as the sender of two signals for each job.
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobDefinition:
    """What ``@job`` declared.

    Attributes:
        name: unique in the project.
        function: the handler.
        queue: where its jobs go; None for ``PGJOBS["DEFAULT_QUEUE"]``.
        priority: higher is claimed earlier among the jobs of one tenant.
        max_attempts: executions before the job is dead; None for
            ``PGJOBS["DEFAULT_MAX_ATTEMPTS"]``.
        timeout: longest run of one attempt, or None.
        progress_timeout: how long what the handler says by ``context.progress()`` may stand still
            before its lease is not renewed any more, or None.
        retry_on: classes of exceptions after which the job runs again, whatever the defaults in
            ``definitions.retries`` say of them.
        discard_on: those after which it is dead at once, because it could not succeed.
        backoff: how long a job that failed waits: a :class:`Backoff`, which doubles; a timedelta,
            always the same; a function of the number of the attempt and the exception; or None
            for ``PGJOBS["BACKOFF_BASE"]`` and ``PGJOBS["BACKOFF_CAP"]``.
        breaker: a :class:`Breaker`, or the name of one with the usual values, that keeps the job
            from being claimed while what it needs is out of order.
        retry_budget: a :class:`RetryBudget`, or its ratio: how many retries there may be for each
            success; further ones wait longer.
        payload_version: stored with each job; a handler can tell old arguments by it.
        atomic: the handler runs in a transaction on ``PGJOBS["DATABASE"]`` in which its success is
            recorded too: exactly once for what it does in that database.
        schema: a pydantic model or a dataclass that the arguments must satisfy, or None.
        pool: where a worker runs it: "threads", "async" or "processes"; None for the event loop
            if it is a coroutine function, else for the worker's own choice.
        context_parameter: name of the handler's first parameter, if that is the JobContext.
        is_async: the handler is a coroutine function.
        signature: of the handler, without the context.

    Raises:
        InvalidHandler: the function or an option makes no sense.
    """

    name: str
    function: Callable[..., Any]
    queue: str | None = None
    priority: int = 0
    max_attempts: int | None = None
    timeout: timedelta | None = None
    progress_timeout: timedelta | None = None
    retry_on: Exceptions = ()
    discard_on: Exceptions = ()
    backoff: BackoffPolicy | None = None
    breaker: Breaker | None = None
    retry_budget: RetryBudget | None = None
    payload_version: int = 1
    atomic: bool = False
    schema: type[Any] | None = None
    pool: str | None = None
    context_parameter: str | None = dataclasses.field(init=False)
    is_async: bool = dataclasses.field(init=False)
    signature: inspect.Signature = dataclasses.field(init=False)
    _keywords: tuple[str, ...] | None = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_function(self.name, self.function)
        signature = inspect.signature(self.function)
        context_parameter = _context_parameter(signature)
        if context_parameter is not None:
            parameters = list(signature.parameters.values())[1:]
            signature = signature.replace(parameters=parameters)
        _check_signature(self.name, signature)
        object.__setattr__(self, "retry_on", exceptions_of(self.retry_on))
        object.__setattr__(self, "discard_on", exceptions_of(self.discard_on))
        object.__setattr__(self, "breaker", breaker_of(self.breaker))
        object.__setattr__(self, "retry_budget", budget_of(self.retry_budget))
        _check_options(self)
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "_keywords", _keywords(signature))
        object.__setattr__(self, "context_parameter", context_parameter)
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(self.function))

    @property
    def takes_context(self) -> bool:
        """True when the handler's first parameter is a JobContext."""
        return self.context_parameter is not None

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, checked against the signature and the schema.

        Defaults are left out, so that a job uses the defaults of the code that runs it.

        Raises:
            InvalidPayload: they do not fit.
        """
        arguments = self._bound(args, kwargs)
        if self.context_parameter in arguments:
            raise InvalidPayload(
                f"The argument {self.context_parameter} of {self.name} is the context, which the "
                "worker passes.",
                argument=self.context_parameter,
            )
        if self.schema is None:
            return arguments
        valid = _validate(self.name, self.schema, arguments)
        # The schema may have fields that the handler does not take.
        return valid if valid.keys() == arguments.keys() else self._rebound(valid)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # Every argument by its name, as bulks mostly do, needs no binding, which is slow.
        if self._keywords is not None and not args and kwargs.keys() == set(self._keywords):
            return {name: kwargs[name] for name in self._keywords}
        try:
            return _flatten(self.signature.bind(*args, **kwargs))
        except TypeError as error:
            raise InvalidPayload(
                f"The arguments do not fit {self.name}{self.signature}: {error}."
            ) from None

    def _rebound(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return _flatten(self.signature.bind(**arguments))
        except TypeError as error:
            raise InvalidPayload(
                f"What the schema of {self.name} returns does not fit "
                f"{self.name}{self.signature}: {error}."
            ) from None


def _keywords(signature: inspect.Signature) -> tuple[str, ...] | None:
    """Return the names of the parameters, if each may be given by its name."""
    by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    parameters = signature.parameters.values()
    return tuple(signature.parameters) if {p.kind for p in parameters} <= by_name else None


def _flatten(bound: inspect.BoundArguments) -> dict[str, Any]:
    arguments = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return arguments


def _validate(name: str, schema: type[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        if dataclasses.is_dataclass(schema):
            valid = schema(**arguments)
            return {field.name: getattr(valid, field.name) for field in dataclasses.fields(schema)}
        dumped: dict[str, Any] = schema.model_validate(arguments).model_dump()
    except (TypeError, ValueError) as error:
        raise InvalidPayload(
            f"The arguments of {name} do not satisfy {schema.__name__}: {error}"
        ) from error
    return dumped


def _check_function(name: str, function: Callable[..., Any]) -> None:
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise InvalidHandler(
            f"{name!r}: a handler must be a function defined with def or async def, "
            f"not {function!r}."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidHandler(
            f"{name!r}: a handler must not be a generator; its body would never run."
        )
    first = next(iter(inspect.signature(function).parameters), None)
    if first in {"self", "cls"} and _is_in_class(function):
        raise InvalidHandler(
            f"{name!r}: a handler must not be a method; a worker has nothing to call it on. "
            "Declare a function."
        )


def _is_in_class(function: Callable[..., Any]) -> bool:
    scope = function.__qualname__.rpartition(".")[0]
    return bool(scope) and not scope.endswith("<locals>")


def _context_parameter(signature: inspect.Signature) -> str | None:
    first = next(iter(signature.parameters.values()), None)
    # The worker passes it by position.
    if first is None or first.kind not in _POSITIONAL:
        return None
    annotation = getattr(first.annotation, "__name__", first.annotation)
    # Text, where the module postpones annotations; in quotes, where it was text already.
    is_context = str(annotation).strip("'\"").rpartition(".")[2] == "JobContext"
    return first.name if is_context or first.name == "context" else None


def _check_signature(name: str, signature: inspect.Signature) -> None:
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InvalidHandler(
                f"{name!r}: the parameter {parameter.name!r} is positional-only, but arguments "
                "are stored and passed by name. Remove the '/'."
            )
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidHandler(
                f"{name!r}: *{parameter.name} has no names to store its arguments by. "
                "Declare a parameter that takes a list."
            )
        if parameter.name == "context" or "JobContext" in str(parameter.annotation):
            raise InvalidHandler(
                f"{name!r}: the context must be the first parameter, and passed by position."
            )


def _check_options(definition: JobDefinition) -> None:
    for problem in _problems(definition):
        raise InvalidHandler(f"{definition.name!r}: {problem}")


def _problems(definition: JobDefinition) -> list[str]:
    problems = []
    problems += name_problems(definition.name)
    if definition.queue is not None:
        problems += queue_problems(definition.queue)
    problems += priority_problems(definition.priority)
    if definition.max_attempts is not None:
        problems += max_attempts_problems(definition.max_attempts)
    problems += _timeout_problems(definition)
    problems += retry_problems(definition.retry_on, definition.discard_on, definition.backoff)
    problems += guard_problems(definition.breaker, definition.retry_budget)
    version = definition.payload_version
    if type(version) is not int or version not in range(1, 32_768):
        problems.append(f"payload_version must be 1 to 32767, not {version!r}.")
    if type(definition.atomic) is not bool:
        problems.append(f"atomic must be True or False, not {definition.atomic!r}.")
    if definition.atomic and inspect.iscoroutinefunction(definition.function):
        problems.append(
            "atomic needs a handler defined with def: Django has no async transactions."
        )
    problems += _pool_problems(definition)
    schema = definition.schema
    if schema is not None and not _is_schema(schema):
        problems.append(f"schema must be a pydantic model or a dataclass, not {schema!r}.")
    return problems


def _timeout_problems(definition: JobDefinition) -> list[str]:
    problems = [
        f"{option} must be a timedelta above zero, not {timeout!r}."
        for option in ("timeout", "progress_timeout")
        if (timeout := getattr(definition, option)) is not None
        and not (isinstance(timeout, timedelta) and timeout > timedelta(0))
    ]
    signature = inspect.signature(definition.function)
    if definition.progress_timeout is not None and _context_parameter(signature) is None:
        problems.append(
            "progress_timeout needs a handler that takes the context: it says by "
            "context.progress() how far it has come."
        )
    return problems


def _pool_problems(definition: JobDefinition) -> list[str]:
    if definition.pool is None:
        return []
    if definition.pool not in POOLS:
        return [f"pool must be one of {', '.join(map(repr, POOLS))}, not {definition.pool!r}."]
    if definition.pool == ASYNC and not inspect.iscoroutinefunction(definition.function):
        return [
            "pool='async' needs a handler defined with async def: others would block the loop."
        ]
    return []


def name_problems(name: object) -> list[str]:
    """Return what is wrong with the name of a job."""
    if is_text(name, MAX_NAME_BYTES):
        return []
    return [f"a name must be text of 1 to {MAX_NAME_BYTES} bytes without NUL."]


def is_text(value: object, max_bytes: int) -> bool:
    """Return whether ``value`` is text that PostgreSQL can store, of 1 to ``max_bytes``."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        return 1 <= len(value.encode()) <= max_bytes
    except UnicodeEncodeError:
        return False


def queue_problems(queue: object) -> list[str]:
    """Return what is wrong with the name of a queue."""
    if isinstance(queue, str) and QUEUE_NAME.fullmatch(queue):
        return []
    return [
        "queue must be 1 to 63 letters, digits, '_', '.' or '-', and begin with a letter or "
        f"digit, not {queue!r}."
    ]


def priority_problems(priority: object) -> list[str]:
    """Return what is wrong with a priority."""
    if type(priority) is int and priority in PRIORITIES:
        return []
    return [f"priority must be a whole number from -32767 to 32767, not {priority!r}."]


def max_attempts_problems(max_attempts: object) -> list[str]:
    """Return what is wrong with a number of attempts."""
    if type(max_attempts) is int and 1 <= max_attempts <= MAX_ATTEMPTS:
        return []
    return [f"max_attempts must be 1 to {MAX_ATTEMPTS}, not {max_attempts!r}."]


def overriding_problems(
    queue: object | None, priority: object | None, max_attempts: object | None
) -> list[str]:
    """Return what is wrong with what stands in for a declaration's; None leaves that."""
    problems = []
    if queue is not None:
        problems += queue_problems(queue)
    if priority is not None:
        problems += priority_problems(priority)
    if max_attempts is not None:
        problems += max_attempts_problems(max_attempts)
    return problems


def _is_schema(schema: object) -> bool:
    is_model = isinstance(schema, type) and hasattr(schema, "model_validate")
    return is_model or (isinstance(schema, type) and dataclasses.is_dataclass(schema))
