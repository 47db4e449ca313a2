"""The names of the pools: where a worker can run a handler."""

from __future__ import annotations

from typing import Final

#: Threads of the worker's process.
THREADS: Final = "threads"

#: An event loop of the worker's process, for handlers defined with ``async def``.
ASYNC: Final = "async"

#: Processes of their own, for handlers that keep a processor busy or may crash.
PROCESSES: Final = "processes"

POOLS: Final = (THREADS, ASYNC, PROCESSES)
