"""A process that enqueues in transactions, not all of which it commits or survives.

::

    python -m tests.chaos.producer NAME SEED [KIND COUNT]
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any

import django
from django.db import Error, connection, transaction

from django_pgjobs import enqueue_many
from django_pgjobs.producer.enqueueing import EnqueuedJob
from tests.ledger import note_enqueue

#: Seconds between two transactions, on average.
PAUSE = 0.05

#: So many go by COPY.
BULK = 600

#: How often each thing is enqueued, of a thousand.
KINDS = {
    "quick": 400,
    "quick_async": 80,
    "slow_async": 20,
    "computed": 80,
    "exits_alone": 10,
    "hangs_alone": 5,
    "transfer_alone": 5,
    "slow": 20,
    "stubborn": 40,
    "late": 20,
    "flaky": 80,
    "broken": 20,
    "unwanted": 20,
    "sleepy": 40,
    "exits": 1,
    "killed": 1,
    "zombie": 5,
    "transfer": 120,
    "transfer_slowly": 30,
    "transfer_badly": 3,
    "transfer_as_zombie": 3,
}

#: The process that makes sure that every kind of job is there.
FIRST = "producer0.1"

#: Tenants: the first two have caps.
TENANTS = (1, 2, 3, 4, 0)


class RolledBack(Exception):
    """The transaction is not wanted."""


class Producer:
    """Enqueues until it is told to stop.

    Args:
        random: decides what it does.
        name: of the process; its tokens begin with it.
    """

    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._name = name
        self._number = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Have ``run`` return."""
        self._stopping.set()

    def run(self, *opening: str) -> None:
        """Enqueue a job of each kind that is given, then whatever chance wants."""
        self.run_plainly(opening)
        while not self._stopping.is_set():
            self.enqueue(self._some_jobs, self._misbehave)
            self._stopping.wait(self._random.uniform(0, 2 * PAUSE))

    def run_plainly(self, kinds: Iterable[str]) -> None:
        """Enqueue a job of each kind that is given."""
        from tests.chaos import jobs

        for kind in kinds:
            request = getattr(jobs, kind)
            self.enqueue(lambda token, request=request: [request.enqueue(token=token)])

    def wait(self) -> None:
        """Return when told to stop."""
        self._stopping.wait()

    def enqueue(
        self,
        write: Callable[[str], list[EnqueuedJob]],
        misbehave: Callable[[], None] = lambda: None,
    ) -> None:
        """Enqueue, and write an order with it, in one transaction; keep the ledger.

        Args:
            write: enqueues jobs under a token.
            misbehave: does what it likes before the commit.
        """
        self._number += 1
        token = f"{self._name}-{self._number}"
        verdict, jobs = "rolled_back", []
        note_enqueue("begun", token)
        try:
            with transaction.atomic():
                _order(token)
                # Another job that holds the key belongs to another token.
                jobs = [job.id for job in write(token) if job.created]
                misbehave()
                note_enqueue("intended", token, jobs)
                # If the commit fails, nobody knows what became of it.
                verdict = "intended"
            verdict = "committed"
        except RolledBack:
            pass
        except Error as error:
            print(f"@ enqueueing failed: {str(error).partition(chr(10))[0]}", flush=True)
            connection.close()
            self._stopping.wait(0.1)
        note_enqueue(verdict, token, jobs)

    def _some_jobs(self, token: str) -> list[EnqueuedJob]:
        from tests.chaos import jobs

        count = self._random.choices([1, 2, 10, BULK], [80, 15, 5, 0.2])[0]
        if count == 1:
            return [self._request().enqueue(token=token)]
        if count < BULK:
            return enqueue_many(self._request().prepare(token=token) for _ in range(count))
        return enqueue_many([jobs.quick.prepare(token=token)] * BULK)

    def _request(self) -> Any:
        from tests.chaos import jobs

        kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
        options: dict[str, Any] = {
            "tenant": self._random.choice(TENANTS),
            "priority": self._random.randint(-1, 1),
            "queue": self._random.choice(["default", "default", "other"]),
        }
        if self._random.random() < 0.1:
            options["delay"] = timedelta(seconds=self._random.uniform(0, 2))
        if self._random.random() < 0.02:
            options["expires"] = timedelta(seconds=1)
        if self._random.random() < 0.02:
            options["idempotency_key"] = f"key-{self._random.randrange(5)}"
        return getattr(jobs, kind).using(**options)

    def _misbehave(self) -> None:
        chance = self._random.random()
        if chance < 0.1:
            raise RolledBack
        if chance < 0.105:
            os.kill(os.getpid(), signal.SIGKILL)


def _order(token: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_orders (token) VALUES (%s)", [token])


def main(name: str, seed: str, kind: str = "", count: str = "0") -> None:
    """Run a producer until SIGTERM."""
    django.setup()
    producer = Producer(Random(f"{seed} {name}"), name)
    signal.signal(signal.SIGTERM, lambda number, frame: producer.stop())
    print("@ producer started", flush=True)
    if kind:
        producer.run_plainly([kind] * int(count))
        producer.wait()
    else:
        # Once in a run, not whenever it is started again.
        producer.run(*(KINDS if name == FIRST else ()))


if __name__ == "__main__":
    main(*sys.argv[1:])
