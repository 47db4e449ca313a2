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
        mean_weight: of the tenants, as seen on the last round over all of them.
        offset: in [0, 1): where the rounding of the shares starts.
        carry: jobs that the tenant right behind ``after_tenant`` may still take.
        sole_tenant: the only tenant with work, if so.
        has_capped: a capped tenant has work.
        has_come_round: ``mean_weight`` is of a whole round.
    """

    after_tenant: int
    mean_weight: float
    offset: float
    carry: int = 0
    sole_tenant: int | None = None
    has_capped: bool = False
    _gone: int = 0
    _weights: float = 0.0
    _walks: int = 0
    has_come_round: bool = False

    def go_on(self, claim: Claim, random: Random) -> None:
        """Note where a claim's walk ended and what it saw."""
        begun = self.after_tenant
        # Nothing more is expected of a tenant of whom nothing could be taken.
        self.carry = claim.carry if claim.jobs else 0
        self.after_tenant = _before(claim.last_tenant) if self.carry else claim.last_tenant
        self.sole_tenant = claim.sole_tenant
        self.has_capped = claim.capped
        if claim.mean_weight is not None:
            self._weights += claim.mean_weight
            self._walks += 1
        if claim.is_truncated:
            # The marks lie at a distance of one from each other along the whole round.
            self.offset = (self.offset + max(0.0, claim.reach)) % 1.0
            gone = (self.after_tenant - begun) % _TENANTS
            self._gone += gone if gone or self.carry else _TENANTS
        else:
            self.offset = (self.offset + _GOLDEN) % 1.0
        if self._walks and not self.has_come_round:
            self.mean_weight = self._weights / self._walks
        if self._gone >= _TENANTS:
            self._come_round(random)

    def _come_round(self, random: Random) -> None:
        # The mean stays the same on a round: else who is walked over with light tenants
        # would get more than who is with heavy ones.
        if self._walks:
            self.mean_weight = self._weights / self._walks
            self.has_come_round = True
        self._gone, self._weights, self._walks = 0, 0.0, 0
        # Not the same tenants are to have the marks each time.
        self.offset = random.random()


#: Tenants are numbered by a bigint, and the walk goes round in a circle.
_LOWEST_TENANT: Final = -(2**63)
_HIGHEST_TENANT: Final = 2**63 - 1
_TENANTS: Final = 2**64


def _before(tenant: int) -> int:
    return tenant - 1 if tenant > _LOWEST_TENANT else _HIGHEST_TENANT


#: Multiples of it fill the interval from 0 to 1 more evenly than random numbers do.
_GOLDEN: Final = (5**0.5 - 1) / 2


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
            if most <= 0:
                self.order.pass_over(queue)
                continue
            jobs = self._claim_from(connection, queue, most)
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
        gone, has_room, evenly = 0, False, False
        for _ in range(_MOST_WALKS):
            begun = walk.after_tenant
            claim = self._claim_once(connection, queue, limit, walk, evenly=evenly)
            if claim.jobs:
                return claim.jobs
            if claim.has_held:
                # It met jobs of open breakers, which are out of the way now.
                continue
            has_room = has_room or claim.mean_weight is not None
            gone += (walk.after_tenant - begun) % _TENANTS or _TENANTS
            if claim.is_truncated and gone < _TENANTS:
                # It has not come round to where it began.
                continue
            if evenly or not has_room:
                return []
            # Those with the largest parts have nothing that can be taken.
            gone, evenly = 0, True
        if evenly or not has_room:
            return []
        # It is far to go round, and the mean is one that no longer holds.
        return self._claim_once(connection, queue, limit, walk, evenly=True).jobs

    def _claim_once(
        self,
        connection: psycopg.Connection[Any],
        queue: str,
        limit: int,
        walk: Walk,
        *,
        evenly: bool,
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
            walk.go_on(claim, self.random)
            if claim.jobs or claim.has_held or not claim.is_truncated:
                return claim
            # Others have work, too, or the tenant has a cap by now.
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
            evenly=evenly,
        )
        if claim.capped and not walk.has_capped:
            # Claim again at once, this time with the right to.
            walk.has_capped = True
            if not claim.jobs:
                return self._claim_once(connection, queue, limit, walk, evenly=evenly)
            return claim
        walk.go_on(claim, self.random)
        return claim


#: Walks of one queue without a job, each over `limit` tenants, before other queues get
#: their turn.
_MOST_WALKS = 50
