"""Claims and completes jobs as fast as it can, in a process of its own.

    python -m benchmarks.consumer BATCH

Says ``ready``, starts at the first line of its input and ends with its input. Writes a line of
JSON for every 1,000 jobs or so: see :class:`Progress`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from random import Random
from time import monotonic, perf_counter, sleep
from typing import Any, Final

import django
import psycopg

from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.connecting import connect
from django_pgjobs.store.execute import WorkerId
from django_pgjobs.store.finish import Success, complete_jobs
from django_pgjobs.worker.claiming import Claimer
from django_pgjobs.worker.queues import QueueOrder

LEASE: Final = timedelta(minutes=5)

#: A line is written after so many jobs, or so many seconds.
_JOBS_A_LINE: Final = 1_000
_SECONDS_A_LINE: Final = 0.25

#: Seconds after a claim that found nothing.
_PAUSE: Final = 0.005


@dataclass(slots=True)
class Progress:
    """What one consumer did since its last line.

    Attributes:
        at: when it was written, on the monotonic clock.
        jobs: completed.
        claims: milliseconds of each claim that found something.
        empty: milliseconds of each claim that found nothing.
        finishes: milliseconds of each completion.
    """

    at: float = 0.0
    jobs: int = 0
    claims: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)


def make_claimer(worker_id: str, seed: int) -> Claimer:
    """Return a claimer as a worker has it."""
    return Claimer(
        order=QueueOrder({"default": 1}),
        worker_id=WorkerId(worker_id),
        lease=LEASE,
        default_weight=10,
        random=Random(seed),
    )


def consume(
    connection: psycopg.Connection[Any], claimer: Claimer, batch: int, to: Progress
) -> int:
    """Claim and complete one batch; return how many jobs that was."""
    began = perf_counter()
    jobs = claimer.claim(connection, batch)
    claimed = perf_counter()
    (to.claims if jobs else to.empty).append((claimed - began) * 1000)
    if jobs:
        complete(connection, claimer.worker_id, jobs)
        to.finishes.append((perf_counter() - claimed) * 1000)
        to.jobs += len(jobs)
    return len(jobs)


def complete(
    connection: psycopg.Connection[Any], worker_id: WorkerId, jobs: list[ClaimedJob]
) -> None:
    """Complete claimed jobs.

    Raises:
        RuntimeError: some were lost, so that whatever is measured means nothing.
    """
    successes = [Success(job.id, job.fence_token, None) for job in jobs]
    written = complete_jobs(connection, successes, worker_id=worker_id)
    if len(written) != len(jobs):
        raise RuntimeError(f"{len(jobs) - len(written)} of {len(jobs)} jobs were lost.")


def main() -> None:
    """Run the process."""
    django.setup()
    batch = int(sys.argv[1])
    claimer = make_claimer(f"consumer:{os.getpid()}", os.getpid())
    stopping = threading.Event()
    with connect("default", "benchmark consumer") as connection:
        print("ready", flush=True)
        sys.stdin.readline()
        threading.Thread(target=_wait_for_end, args=(stopping,), daemon=True).start()
        while not stopping.is_set():
            _consume_a_line(connection, claimer, batch, stopping)


def _consume_a_line(
    connection: psycopg.Connection[Any], claimer: Claimer, batch: int, stopping: threading.Event
) -> None:
    progress, until = Progress(), monotonic() + _SECONDS_A_LINE
    while progress.jobs < _JOBS_A_LINE and monotonic() < until and not stopping.is_set():
        if not consume(connection, claimer, batch, progress):
            sleep(_PAUSE)
    progress.at = monotonic()
    print(json.dumps(asdict(progress)), flush=True)


def _wait_for_end(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


if __name__ == "__main__":
    main()
