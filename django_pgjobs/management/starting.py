"""What the commands check before they begin."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Event, Thread
from time import monotonic
from typing import Final

import psycopg
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, connections

from ..administration.declaring import compare
from ..conf import PgJobsSettings
from ..definitions.registry import Registry
from ..observability.connections import explain_shortage
from ..observability.schema import missing_migrations
from ..store.connecting import SessionOptions, connect
from ..store.observe import read_backend, read_connection_limits

logger = logging.getLogger("django_pgjobs")

#: Seconds between two tries to reach the server, at first and at most.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0

#: Seconds after which a server that says nothing is asked anew.
_LONGEST_SILENCE: Final = 60.0

#: Seconds after which a signal is noticed.
_TURN: Final = 0.2


def require_schema(alias: str) -> None:
    """Return if the tables are there and up to date.

    Raises:
        CommandError: they are not, or the server cannot be reached.
    """
    try:
        missing = missing_migrations(alias)
    except OperationalError as error:
        raise CommandError(f"The database {alias!r} cannot be reached: {_line(error)}") from None
    if missing:
        raise CommandError(explain_missing(alias, missing))


def wait_for_schema(alias: str, *, is_stopped: Callable[[], bool]) -> None:
    """Return when the server can be reached and the tables are up to date, or when told to stop.

    A server that neither answers nor refuses keeps nobody from stopping, and is asked again.

    Raises:
        CommandError: the tables are missing or not up to date.
    """
    pause = _FIRST_PAUSE
    while not is_stopped():
        try:
            missing = _look(alias, is_stopped)
        except OperationalError as error:
            logger.warning("The database cannot be reached, will retry: %s", _line(error))
            _pause(pause, is_stopped)
            pause = min(pause * 2, _LONGEST_PAUSE)
            continue
        if missing:
            raise CommandError(explain_missing(alias, missing))
        return


def warn_of_connections(settings: PgJobsSettings, needed: int) -> None:
    """Say so when a worker may need more connections than it can have, or others than it has.

    Args:
        settings: of the project.
        needed: connections that the worker has at most.
    """
    if not settings.keeps_state:
        # Its limits are the pooler's, which only that knows.
        return
    options = SessionOptions.from_settings(settings)
    try:
        with connect(settings.database, "pgjobs start", options) as connection:
            if read_backend(connection) != connection.info.backend_pid:
                logger.warning(_POOLED)
                return
            limits = read_connection_limits(connection)
    except psycopg.Error as error:
        logger.warning("The limits of connections could not be read: %s", _line(error))
        return
    for sentence in explain_shortage(needed, limits):
        logger.warning(sentence)


_POOLED: Final = (
    "The database is reached through a pooler. That is fine in session mode. In transaction mode "
    "a worker needs PGJOBS['LISTEN'] = False, or PGJOBS['LISTEN_DATABASE']."
)


def warn_of_other_schedules(alias: str, registry: Registry) -> None:
    """Log which schedules the code declares otherwise than the database has them.

    Of this code only: schedules that the database has besides may be those of newer code.
    """
    if not registry.schedules:
        return
    try:
        changes = compare(registry)
    except DatabaseError as error:
        logger.info("The schedules of the code were not compared: %s", _line(error))
        return
    finally:
        # Of a process that does not use Django's connections.
        connections[alias].close()
    names = [*changes.created, *changes.changed, *changes.restored, *changes.taken]
    if names:
        logger.warning(
            "The code declares schedules otherwise than the database has them: %s. Run manage.py "
            "migrate or pgjobs_schedules --sync, if this code is the newest.",
            ", ".join(names),
        )


def explain_missing(alias: str, missing: list[str]) -> str:
    """Return a sentence that names the first migration that is missing."""
    option = "" if alias == "default" else f" --database {alias}"
    return (
        f"The tables of django_pgjobs are not up to date: the migration {missing[0]} has not been "
        f"applied. Run manage.py migrate{option}."
    )


def _look(alias: str, is_stopped: Callable[[], bool]) -> list[str]:
    """Return the missing migrations; none when told to stop first.

    In a thread of its own, which is left behind when no answer comes: no signal ends a wait for
    the server.
    """
    answer: Future[list[str]] = Future()

    def look() -> None:
        try:
            answer.set_result(missing_migrations(alias))
        except Exception as error:
            answer.set_exception(error)
        finally:
            connections[alias].close()

    Thread(target=look, name="pgjobs-look", daemon=True).start()
    deadline = monotonic() + _LONGEST_SILENCE
    while not is_stopped():
        if wait([answer], _TURN).done:
            return answer.result()
        if monotonic() > deadline:
            raise OperationalError(f"it has not answered for {_LONGEST_SILENCE:.0f} s")
    return []


def _pause(seconds: float, is_stopped: Callable[[], bool]) -> None:
    # In short turns: a signal handler does not end a wait, and is only seen after it.
    deadline = monotonic() + seconds
    while monotonic() < deadline and not is_stopped():
        Event().wait(_TURN)


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
