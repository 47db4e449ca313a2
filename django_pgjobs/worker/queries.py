"""Watch what handlers execute on Django's connections.

Each query says in a comment for which job it is, so that ``pg_stat_activity`` and the server's log
do, too. And a connection in whose session a query leaves something, such as ``SET search_path``,
is closed at the end of the job instead of being lent to the next one.

Both see what goes through Django's cursors: not what a function of the database does, or a
connection of the handler's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ..store.execute import JobId

#: As a connection's ``close_at``: a query has left something in its session.
LEFT_STATE: Final = 0.0

_running: ContextVar[JobId | None] = ContextVar("pgjobs_running_job", default=None)

_SETS_STATE: Final = re.compile(
    r"\s*(?:set\s+(?!local\b|transaction\b|constraints\b)"
    r"|reset\b|listen\b|load\b|prepare\s+(?!transaction\b)"
    r"|create\s+(?:local\s+|global\s+)?temp(?:orary)?\b)",
    re.IGNORECASE,
)
_CALLS_FOR_STATE: Final = re.compile(
    r"\bpg_(?:try_)?advisory_lock(?:_shared)?\s*\("
    r"|\bwith hold\b"
    r"|\bset_config\s*\((?![^()]*,\s*true\s*\))"
)
_WORDS: Final = ("advisory_lock", "with hold", "set_config")


def note_running(job_id: JobId) -> None:
    """Say which job what follows in this context is for."""
    _running.set(job_id)


def leaves_state(query: str) -> bool:
    """Say whether a query leaves something in its session after the end of its transaction."""
    if _SETS_STATE.match(query):
        return True
    folded = query.lower()
    # Searching takes ten times as long as looking for the words.
    return any(word in folded for word in _WORDS) and bool(_CALLS_FOR_STATE.search(folded))


class QueryWatch:
    """Watches every connection that is made from now on.

    Args:
        comments: whether to mark queries with their jobs.
    """

    def __init__(self, *, comments: bool) -> None:
        self._comments = comments

    def start(self) -> None:
        """Begin to watch, in this process."""
        connection_created.connect(self._watch, weak=False, dispatch_uid=__name__)

    def _watch(self, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        # Before those of others: whoever removes his own removes the last.
        if self.execute not in connection.execute_wrappers:
            connection.execute_wrappers.insert(0, self.execute)

    def execute(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: Mapping[str, Any],
    ) -> Any:
        """Execute a query: a wrapper of Django's."""
        job_id = _running.get()
        if job_id is None or not isinstance(sql, str):
            return execute(sql, params, many, context)
        connection: BaseDatabaseWrapper = context["connection"]
        if leaves_state(sql):
            # Obsolete from now on: it is closed when the job has ended.
            connection.close_at = LEFT_STATE
        if self._comments and _is_planned_anew(connection):
            sql = f"/* pgjobs job={job_id} */ {sql}"
        return execute(sql, params, many, context)


def _is_planned_anew(connection: BaseDatabaseWrapper) -> bool:
    # Where the project has turned prepared statements on, each job would prepare its own.
    return connection.settings_dict["OPTIONS"].get("prepare_threshold") is None
