"""Carry one claimed job to its outcome, in a thread."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from datetime import timedelta
from time import perf_counter
from typing import Any, Self

from django.db import transaction

from .. import signals
from ..conf import PgJobsSettings
from ..definitions.context import JobContext
from ..definitions.definition import JobDefinition
from ..definitions.middleware import GetResult
from ..definitions.registry import Registry
from ..states import Outcome
from ..store.execute import WorkerId
from ..store.finish import Ending, Success
from .attempts import Attempt
from .calling import call
from .classifying import classify
from .hygiene import clean_connections
from .measuring import RunTime
from .middleware import sync_chain
from .recording import Recorded, record_success
from .reporting import AttemptEnd, report
from .steps import Steps
from .telling import tell
from .timeouts import Deadline, DeadlineWatch


class Execution(Steps):
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
        chain: of middleware, around each handler; None for none.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        run_time: RunTime,
        watch: DeadlineWatch,
        grace: timedelta,
        on_overdue: Callable[[Attempt], None],
        max_result_bytes: int,
        alias: str,
        worker_id: WorkerId,
        chain: GetResult | None = None,
    ) -> None:
        super().__init__(
            registry=registry, run_time=run_time, max_result_bytes=max_result_bytes, chain=chain
        )
        self._watch = watch
        self._grace = grace.total_seconds()
        self._on_overdue = on_overdue
        self._alias = alias
        self._worker_id = worker_id

    @classmethod
    def from_settings(
        cls,
        settings: PgJobsSettings,
        *,
        registry: Registry,
        run_time: RunTime,
        watch: DeadlineWatch,
        on_overdue: Callable[[Attempt], None],
        worker_id: WorkerId,
    ) -> Self:
        """Return what runs attempts as the settings say, in a worker or a process of its.

        Raises:
            ImproperlyConfigured: the settings name something that is no middleware.
        """
        return cls(
            registry=registry,
            run_time=run_time,
            watch=watch,
            grace=settings.timeout_grace,
            on_overdue=on_overdue,
            max_result_bytes=settings.max_payload_bytes,
            alias=settings.database,
            worker_id=worker_id,
            chain=sync_chain(settings.middleware, registry),
        )

    def run(self, attempt: Attempt) -> Success | Ending | Recorded:
        """Carry ``attempt`` to its outcome. Never raises.

        In a context of its own: no context variable that a handler sets, and so neither language
        nor time zone, is left to the next one in the thread.
        """
        definition = self._registry.find(attempt.job.job_name)
        if definition is None:
            return self._unknown(attempt)
        outcome = copy_context().run(self._run, definition, attempt)
        clean_connections()
        return outcome

    def _run(self, definition: JobDefinition, attempt: Attempt) -> Success | Ending | Recorded:
        if definition.timeout is None:
            return self._carry(definition, attempt)
        # Around receivers of signals too, and around a coroutine, whose event loop cancels it.
        with Deadline(
            self._watch,
            definition.timeout.total_seconds(),
            grace=self._grace,
            on_overdue=lambda: self._on_overdue(attempt),
            interrupts=False,
        ):
            return self._carry(definition, attempt)

    def _carry(self, definition: JobDefinition, attempt: Attempt) -> Success | Ending | Recorded:
        began = perf_counter()
        try:
            self._prepare(definition, attempt)
            tell(signals.job_started, definition, context=attempt.context)
            began = perf_counter()
            act = self._call_in_transaction if definition.atomic else self._call
            outcome = act(definition, attempt)
        except BaseException as error:
            # Also SystemExit and CancelledError: a thread of a pool is no place for them to end,
            # and their job would be renewed for ever.
            ending = classify(definition, attempt, error)
            self._tell(definition, attempt, ending.outcome, error, began)
            return ending
        self._tell(definition, attempt, Outcome.COMPLETED, None, began)
        return outcome

    def _call(self, definition: JobDefinition, attempt: Attempt) -> Success:
        if definition.timeout is None or definition.is_async:
            return self._success(attempt, self._get_result(definition, attempt.context))
        with Deadline(self._watch, definition.timeout.total_seconds()):
            result = self._get_result(definition, attempt.context)
        return self._success(attempt, result)

    def _get_result(self, definition: JobDefinition, context: JobContext) -> Any:
        return call(definition, context) if self._chain is None else self._chain(context)

    def _call_in_transaction(self, definition: JobDefinition, attempt: Attempt) -> Recorded:
        # The timeout is over before the commit: it must not interrupt that.
        with transaction.atomic(using=self._alias):
            success = self._call(definition, attempt)
            record_success(success, alias=self._alias, worker_id=self._worker_id)
        return Recorded(*attempt.key)

    def _tell(
        self,
        definition: JobDefinition,
        attempt: Attempt,
        outcome: Outcome,
        error: BaseException | None,
        began: float,
    ) -> None:
        duration = perf_counter() - began
        self._run_time.note(duration)
        report(AttemptEnd(definition, attempt.context, outcome, error, duration))
