"""Claim jobs: which statement, from which queue, how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

import psycopg

from ..store.claim import (
    Claim,
    ClaimedJob,
    claim_jobs,
    claim_jobs_of_tenant,
    claim_jobs_under_caps,
)
from ..store.execute import WorkerId
from .queues import QueueOrder


@dataclass(slots=True)
class Walk:
    """Where the walk over a queue's tenants stands, and what it saw last.

    Attributes:
        after_tenant: the next walk begins behind it.
        mean_weight: the moving average of the tenants' weights.
        offset: in [0, 1): where the rounding of the shares starts.
        carry: jobs that the tenant ``after_tenant + 1`` may still take.
        sole_tenant: the only tenant with work, if so.
        has_capped: a capped tenant has work.
    """

    after_tenant: int
    mean_weight: float
    offset: float
    carry: int = 0
    sole_tenant: int | None = None
    has_capped: bool = False

    def go_on(self, claim: Claim) -> None:
        """Note where a claim's walk ended and what it saw."""
        self.carry = claim.carry
        self.after_tenant = claim.last_tenant - (1 if claim.carry else 0)
        self.sole_tenant = claim.sole_tenant
        self.has_capped = claim.capped
        if claim.mean_weight is not None:
            self.mean_weight += _NEWEST * (claim.mean_weight - self.mean_weight)
        self.offset = (self.offset + _GOLDEN) % 1.0


#: Multiples of it fill the interval from 0 to 1 more evenly than random numbers do.
_GOLDEN: Final = (5**0.5 - 1) / 2

#: Weight of the newest claim in the average of weights.
_NEWEST: Final = 0.2


@dataclass(slots=True, kw_only=True)
class Claimer:
    """Claims for one worker.

    Args:
        order: which queue comes next.
        worker_id: of the worker.
        lease: how long an attempt lives without a renewal.
        default_weight: of tenants without a row.
        random: source of jitter; a seeded one in tests.
    """

    order: QueueOrder
    worker_id: WorkerId
    lease: timedelta
    default_weight: int
    random: Random
    walks: dict[str, Walk] = field(default_factory=dict)

    def claim(
        self,
        connection: psycopg.Connection[Any],
        limit: int,
        room: Callable[[str], int] | None = None,
    ) -> list[ClaimedJob]:
        """Return up to ``limit`` claimed jobs of the first queue that has any.

        Empty only when every queue for which there is room is empty, paused, or at its caps.

        Args:
            connection: of the claimer.
            limit: most jobs.
            room: returns how many of a queue's jobs may be claimed, if that is not ``limit``.
        """
        for queue in self.order.candidates():
            most = limit if room is None else min(limit, room(queue))
            jobs = self._claim_from(connection, queue, most) if most > 0 else []
            if jobs:
                self.order.charge(queue, len(jobs))
                return jobs
            self.order.note_empty(queue)
        return []

    def _claim_from(
        self, connection: psycopg.Connection[Any], queue: str, limit: int
    ) -> list[ClaimedJob]:
        walk = self.walks.get(queue)
        if walk is None:
            # A random start spreads workers that begin together over the tenants.
            walk = self.walks[queue] = Walk(
                after_tenant=self.random.randrange(-1, 2**16),
                mean_weight=self.default_weight,
                offset=self.random.random(),
            )
        walked = 0
        while True:
            claim = self._claim_once(connection, queue, limit, walk)
            walked += 1
            # A walk that ended early, or one by a statement that does not serve this
            # tenant, has not shown that the queue is empty.
            # Nor has one that only met jobs of open breakers.
            has_more = claim.is_truncated or claim.has_held
            if claim.jobs or not has_more or walked > _MOST_WALKS:
                return claim.jobs

    def _claim_once(
        self, connection: psycopg.Connection[Any], queue: str, limit: int, walk: Walk
    ) -> Claim:
        if walk.sole_tenant is not None and not walk.has_capped:
            claim = claim_jobs_of_tenant(
                connection,
                queue=queue,
                tenant_id=walk.sole_tenant,
                worker_id=self.worker_id,
                limit=limit,
                lease=self.lease,
            )
        else:
            statement = claim_jobs_under_caps if walk.has_capped else claim_jobs
            claim = statement(
                connection,
                queue=queue,
                worker_id=self.worker_id,
                limit=limit,
                lease=self.lease,
                after_tenant=walk.after_tenant,
                carry=walk.carry,
                mean_weight=walk.mean_weight,
                offset=walk.offset,
                default_weight=self.default_weight,
            )
        if claim.capped and not walk.has_capped:
            # Claim again at once, this time with the right to.
            walk.has_capped = True
            return claim if claim.jobs else self._claim_once(connection, queue, limit, walk)
        walk.go_on(claim)
        return claim


#: Walks of one queue without a job, each over `limit` tenants, before other queues get
#: their turn.
_MOST_WALKS = 50
