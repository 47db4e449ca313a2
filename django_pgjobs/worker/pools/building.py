"""Which pools a worker has."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ...conf import PgJobsSettings
from ...definitions.pools import PROCESSES, THREADS
from ...definitions.registry import Registry
from ...store.execute import WorkerId
from ..capacity import Load
from ..timeouts import DeadlineWatch
from .group import PoolGroup
from .place import ProcessOptions
from .pool import Finish
from .processes import ProcessPool
from .threads import ThreadPool


def build_pools(
    *,
    threads: ThreadPool,
    registry: Registry,
    settings: PgJobsSettings,
    worker_id: WorkerId,
    loads: Mapping[str, Load],
    watch: DeadlineWatch,
    finish: Finish,
    random: Random,
) -> PoolGroup:
    """Return the pools of a worker.

    Args:
        threads: its pool of threads.
        registry: of definitions.
        settings: of the project.
        worker_id: of the worker.
        loads: of each pool.
        watch: of timeouts.
        finish: told how attempts end.
        random: source of jitter.
    """
    # Always there, since it costs nothing until a job needs it: so any job can be run apart
    # from the others.
    processes = ProcessPool(
        loads[PROCESSES].size,
        options=ProcessOptions(
            worker_id=worker_id,
            grace=settings.timeout_grace,
            max_jobs=settings.process_max_jobs,
            max_memory=settings.process_max_memory_bytes,
        ),
        registry=registry,
        run_time=loads[PROCESSES].run_time,
        watch=watch,
        finish=finish,
        random=random,
    )
    return PoolGroup({THREADS: threads, PROCESSES: processes})
