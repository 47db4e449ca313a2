"""Which pools a worker has, and what runs in them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from ...conf import PgJobsSettings
from ...definitions.pools import ASYNC, PROCESSES, THREADS
from ...definitions.registry import Registry
from ...store.execute import WorkerId
from ...store.finish import Ending, Success
from ..async_execution import AsyncExecution
from ..attempts import Attempt
from ..capacity import Load
from ..classifying import released
from ..execution import Execution
from ..finishing import Finisher
from ..middleware import async_chain
from ..timeouts import DeadlineWatch
from ..writing_off import Unkillable, WriteOffs
from .group import PoolGroup
from .loop import LoopPool
from .place import ProcessOptions
from .pool import Pool
from .processes import ProcessPool
from .threads import ThreadPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What pools need of their worker.

    Attributes:
        settings: of the project.
        registry: of definitions.
        worker_id: of the worker.
        stopping: set when the worker has been told to stop; then nothing begins.
        finisher: takes the outcomes.
        random: source of jitter.
        on_stuck: called when a pool is of no use any more.
    """

    settings: PgJobsSettings
    registry: Registry
    worker_id: WorkerId
    stopping: threading.Event
    finisher: Finisher
    random: Random
    on_stuck: Callable[[], None]


def build_pools(loads: Mapping[str, Load], around: Surroundings) -> PoolGroup:
    """Return the pools of a worker.

    Args:
        loads: of each pool that it is to have, by name; only the event loop may be missing.
        around: what they need.
    """
    watch = DeadlineWatch()
    unkillable: dict[str, Unkillable] = {}
    write_offs = WriteOffs(
        around.registry, unkillable, finish=around.finisher.submit, on_stuck=around.on_stuck
    )
    pools: dict[str, Pool] = {}
    pools[THREADS] = unkillable[THREADS] = _threads(loads[THREADS], around, watch, write_offs)
    pools[PROCESSES] = _processes(loads[PROCESSES], around, watch)
    if ASYNC in loads:
        pools[ASYNC] = unkillable[ASYNC] = _loop(loads[ASYNC], around, write_offs)
    return PoolGroup(pools, watch)


def _threads(
    load: Load, around: Surroundings, watch: DeadlineWatch, write_offs: WriteOffs
) -> ThreadPool:
    execution = Execution.from_settings(
        around.settings,
        registry=around.registry,
        run_time=load.run_time,
        watch=watch,
        on_overdue=write_offs.note_overdue,
        worker_id=around.worker_id,
    )
    finish, stopping = around.finisher.submit, around.stopping

    def work(attempt: Attempt) -> None:
        finish(attempt, released(attempt) if stopping.is_set() else execution.run(attempt))

    return ThreadPool(load.size, work)


def _processes(load: Load, around: Surroundings, watch: DeadlineWatch) -> ProcessPool:
    settings = around.settings
    return ProcessPool(
        load.size,
        options=ProcessOptions(
            worker_id=around.worker_id,
            grace=settings.timeout_grace,
            max_jobs=settings.process_max_jobs,
            max_memory=settings.process_max_memory_bytes,
        ),
        registry=around.registry,
        run_time=load.run_time,
        watch=watch,
        finish=around.finisher.submit,
        random=around.random,
    )


def _loop(load: Load, around: Surroundings, write_offs: WriteOffs) -> LoopPool:
    execution = AsyncExecution(
        registry=around.registry,
        run_time=load.run_time,
        max_result_bytes=around.settings.max_payload_bytes,
        chain=async_chain(around.settings.middleware, around.registry),
    )
    stopping = around.stopping

    async def work(attempt: Attempt) -> Success | Ending:
        return released(attempt) if stopping.is_set() else await execution.run(attempt)

    return LoopPool(
        load.size,
        work,
        around.finisher.submit_all,
        threads=around.settings.async_threads,
        grace=around.settings.timeout_grace,
        # Nothing in the loop can go on for as long as the jobs of a dead worker wait.
        patience=around.settings.lease_duration,
        on_overdue=write_offs.note_overdue,
        on_stuck=write_offs.note_stuck_loop,
    )
