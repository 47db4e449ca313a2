"""Carry one claimed job to its outcome, in an event loop."""

from __future__ import annotations

import asyncio
from time import perf_counter

from .. import signals
from ..definitions.definition import JobDefinition
from ..outcomes import Cancel
from ..states import Outcome
from ..store.finish import Ending, Success
from .attempts import Attempt
from .calling import acall
from .classifying import classify, released
from .reporting import AttemptEnd, areport
from .steps import Steps
from .telling import atell


class AsyncExecution(Steps):
    """Runs attempts, any number at a time, as tasks of the event loop that awaits ``run``."""

    async def run(self, attempt: Attempt) -> Success | Ending:
        """Carry ``attempt`` to its outcome. Raises nothing while its event loop runs.

        The task may be cancelled while the handler runs: that is how a handler is told that its
        lease is lost, that its job was cancelled, or that the worker stops now.
        """
        definition = self._registry.find(attempt.job.job_name)
        if definition is None:
            return self._unknown(attempt)
        began = perf_counter()
        try:
            self._prepare(definition, attempt)
            if signals.job_started.receivers:
                await atell(signals.job_started, definition, context=attempt.context)
            began = perf_counter()
            if self._chain is None:
                result = await acall(definition, attempt.context)
            else:
                result = await self._chain(attempt.context)
            success = self._success(attempt, result)
        except GeneratorExit as error:
            # The loop may be gone: nothing can be awaited any more.
            return classify(definition, attempt, error)
        except BaseException as error:
            # Also SystemExit, which would end the loop with everything in it.
            ending = _ending_of(definition, attempt, error)
            await self._tell(definition, attempt, ending.outcome, error, began)
            return ending
        await self._tell(definition, attempt, Outcome.COMPLETED, None, began)
        return success

    async def _tell(
        self,
        definition: JobDefinition,
        attempt: Attempt,
        outcome: Outcome,
        error: BaseException | None,
        began: float,
    ) -> None:
        duration = perf_counter() - began
        self._run_time.note(duration)
        await areport(AttemptEnd(definition, attempt.context, outcome, error, duration))


def _ending_of(definition: JobDefinition, attempt: Attempt, error: BaseException) -> Ending:
    if isinstance(error, asyncio.CancelledError):
        if attempt.context.is_cancelled:
            return classify(definition, attempt, Cancel("The job was cancelled while it ran."))
        if attempt.context.is_stopping:
            return released(attempt)
    return classify(definition, attempt, error)
