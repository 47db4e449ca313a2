"""Carry one claimed job to its outcome."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from inspect import isawaitable
from time import perf_counter
from typing import Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.utils import timezone, translation

from .. import signals
from ..definitions.definition import JobDefinition
from ..definitions.errors import MAX_MESSAGE, storable
from ..definitions.payloads import decode_payload, encode_value
from ..definitions.registry import Registry
from ..exceptions import InvalidPayload, UndecodablePayload, UnknownJob
from ..states import Outcome
from ..store.execute import WorkerId
from ..store.finish import Ending, Success
from .attempts import Attempt
from .classifying import classify, released
from .measuring import RunTime
from .recording import Recorded, record_success
from .timeouts import Deadline, DeadlineWatch

logger = logging.getLogger("django_pgjobs.worker")

#: A job that this process has no handler for goes back, for a newer worker to take: at first
#: soon, then less and less often.
_UNKNOWN_DELAY = timedelta(seconds=15)
_UNKNOWN_DELAY_AT_MOST = timedelta(minutes=10)


class Execution:
    """Runs attempts, one at a time in each thread that calls ``run``.

    Args:
        registry: of definitions.
        run_time: told how long handlers take.
        watch: of timeouts.
        grace: how long a handler may go on after its timeout.
        on_overdue: called with an attempt whose handler has gone on for longer.
        max_result_bytes: limit of a result's JSON text.
        alias: database alias of the tables, where atomic jobs have their transaction.
        worker_id: of the worker.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        run_time: RunTime,
        watch: DeadlineWatch,
        grace: timedelta,
        on_overdue: Callable[[JobDefinition, Attempt], None],
        max_result_bytes: int,
        alias: str,
        worker_id: WorkerId,
    ) -> None:
        self._registry = registry
        self._run_time = run_time
        self._watch = watch
        self._grace = grace.total_seconds()
        self._on_overdue = on_overdue
        self._max_result_bytes = max_result_bytes
        self._alias = alias
        self._worker_id = worker_id

    def run(self, attempt: Attempt) -> Success | Ending | Recorded:
        """Carry ``attempt`` to its outcome. Never raises."""
        definition = self._registry.find(attempt.job.job_name)
        if definition is None:
            return self._unknown(attempt)
        try:
            arguments = decode_payload(attempt.job.payload)
        except UndecodablePayload as error:
            return self._ended(definition, attempt, error, began=perf_counter())
        attempt.context.begin(definition.timeout)
        signals.job_started.send_robust(definition, context=attempt.context)
        began = perf_counter()
        act = self._call_in_transaction if definition.atomic else self._call
        try:
            outcome: Success | Ending | Recorded = act(definition, attempt, arguments)
        except BaseException as error:
            # Also SystemExit and CancelledError: a thread of a pool is no place for them to end,
            # and their job would be renewed for ever.
            outcome = self._ended(definition, attempt, error, began)
        else:
            self._tell_success(definition, attempt, began)
        finally:
            _clean_thread()
        return outcome

    def _call(
        self, definition: JobDefinition, attempt: Attempt, arguments: dict[str, Any]
    ) -> Success:
        if definition.timeout is None:
            result = _call(definition, attempt, arguments)
        else:
            with Deadline(
                self._watch,
                definition.timeout.total_seconds(),
                grace=self._grace,
                on_overdue=lambda: self._on_overdue(definition, attempt),
            ):
                result = _call(definition, attempt, arguments)
        return Success(*attempt.key, None if result is None else self._encode(attempt, result))

    def _call_in_transaction(
        self, definition: JobDefinition, attempt: Attempt, arguments: dict[str, Any]
    ) -> Recorded:
        # The timeout is over before the commit: it must not interrupt that.
        with transaction.atomic(using=self._alias):
            success = self._call(definition, attempt, arguments)
            record_success(success, alias=self._alias, worker_id=self._worker_id)
        return Recorded(*attempt.key)

    def _tell_success(self, definition: JobDefinition, attempt: Attempt, began: float) -> None:
        duration = perf_counter() - began
        self._run_time.note(duration)
        signals.job_finished.send_robust(
            definition,
            context=attempt.context,
            outcome=Outcome.COMPLETED,
            error=None,
            duration=duration,
        )

    def _encode(self, attempt: Attempt, result: Any) -> str | None:
        # The work is done: a result that cannot be kept must not make it run again.
        try:
            text = encode_value(result, "result")
            size = len(text.encode())
            if size > self._max_result_bytes:
                raise InvalidPayload(f"It takes {size} bytes.")
        except InvalidPayload as error:
            logger.error(
                "The result was not kept: %s id=%s name=%s",
                error,
                attempt.job.id,
                attempt.job.job_name,
            )
            return None
        return text

    def _ended(
        self, definition: JobDefinition, attempt: Attempt, error: BaseException, began: float
    ) -> Ending:
        duration = perf_counter() - began
        self._run_time.note(duration)
        ending = classify(definition, attempt, error)
        signals.job_finished.send_robust(
            definition,
            context=attempt.context,
            outcome=ending.outcome,
            error=error,
            duration=duration,
        )
        return ending

    def _unknown(self, attempt: Attempt) -> Ending:
        reason = self._registry.explain_missing(attempt.job.job_name)
        logger.warning("%s It goes back for a newer worker. id=%s", reason, attempt.job.id)
        delay = min(_UNKNOWN_DELAY * attempt.job.claims, _UNKNOWN_DELAY_AT_MOST)
        return dataclasses.replace(
            released(attempt, delay=delay),
            error_class=f"{UnknownJob.__module__}.{UnknownJob.__qualname__}",
            error_message=storable(reason, MAX_MESSAGE),
        )


def _call(definition: JobDefinition, attempt: Attempt, arguments: dict[str, Any]) -> Any:
    function = async_to_sync(definition.function) if definition.is_async else definition.function
    if definition.takes_context:
        result = function(attempt.context, **arguments)
    else:
        result = function(**arguments)
    # A decorator may have made a plain function of a coroutine function.
    if result is not None and isawaitable(result):
        return async_to_sync(_await)(result)
    return result


async def _await(result: Awaitable[Any]) -> Any:
    return await result


def _clean_thread() -> None:
    """Leave nothing of a handler to the next one in this thread."""
    try:
        # In one pass: Django's own close_old_connections and reset_queries are two more.
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block or not connection.get_autocommit():
                # A handler that left a transaction open: what it did is undone.
                connection.close()
                connection.in_atomic_block = False
            connection.close_if_unusable_or_obsolete()
            connection.queries_log.clear()
    except Exception:
        logger.exception("Cleaning up after a handler failed")
    translation.deactivate()
    timezone.deactivate()
