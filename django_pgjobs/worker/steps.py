"""What comes before and after a handler, wherever it runs."""

from __future__ import annotations

import dataclasses
import logging
from datetime import timedelta
from typing import Any, Final

from ..definitions.definition import JobDefinition
from ..definitions.errors import MAX_MESSAGE, message_of, storable
from ..definitions.middleware import GetResult
from ..definitions.payloads import decode_payload, encode_value
from ..definitions.registry import Registry
from ..exceptions import InvalidPayload, UnknownJob
from ..store.finish import Ending, Success
from .attempts import Attempt
from .classifying import released
from .measuring import RunTime
from .queries import note_running
from .telling import say

#: A job that this process has no handler for goes back, for a newer worker to take: at first
#: soon, then less and less often.
_UNKNOWN_DELAY: Final = timedelta(seconds=15)
_UNKNOWN_DELAY_AT_MOST: Final = timedelta(minutes=10)


class Steps:
    """The steps that running in a thread and in an event loop have in common.

    Args:
        registry: of definitions.
        run_time: told how long handlers take.
        max_result_bytes: limit of a result's JSON text.
        chain: of middleware, around each handler; None for none.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        run_time: RunTime,
        max_result_bytes: int,
        chain: GetResult | None = None,
    ) -> None:
        self._registry = registry
        self._run_time = run_time
        self._max_result_bytes = max_result_bytes
        self._chain = chain

    def _prepare(self, definition: JobDefinition, attempt: Attempt) -> None:
        """Decode the arguments and start the clock.

        Raises:
            UndecodablePayload: they cannot be decoded.
        """
        note_running(attempt.job.id)
        attempt.context.arguments = decode_payload(attempt.job.payload)
        attempt.context.begin(definition.timeout, definition.progress_timeout)

    def _success(self, attempt: Attempt, result: Any) -> Success:
        return Success(*attempt.key, None if result is None else self._encode(attempt, result))

    def _encode(self, attempt: Attempt, result: Any) -> str | None:
        # The work is done: a result that cannot be kept must not make it run again.
        try:
            text = encode_value(result, "result")
            size = len(text.encode())
            if size > self._max_result_bytes:
                raise InvalidPayload(f"It takes {size} bytes.")
        except BaseException as error:  # also of a method of what it returned
            say(
                logging.ERROR,
                "The result was not kept: %s id=%s name=%s",
                message_of(error),
                attempt.job.id,
                attempt.job.job_name,
            )
            return None
        return text

    def _unknown(self, attempt: Attempt) -> Ending:
        reason = self._registry.explain_missing(attempt.job.job_name)
        say(
            logging.WARNING,
            "%s It goes back for a newer worker. id=%s",
            reason,
            attempt.job.id,
        )
        delay = min(_UNKNOWN_DELAY * attempt.job.claims, _UNKNOWN_DELAY_AT_MOST)
        return dataclasses.replace(
            released(attempt, delay=delay),
            error_class=f"{UnknownJob.__module__}.{UnknownJob.__qualname__}",
            error_message=storable(reason, MAX_MESSAGE),
        )
