"""The store's functions with the values that most tests do not care about."""

from __future__ import annotations

from datetime import timedelta

from django_pgjobs.states import Outcome
from django_pgjobs.store import claim as claims
from django_pgjobs.store import finish, maintain
from django_pgjobs.store.finish import Ending, Success
from django_pgjobs.store.schedules import Firing
from django_pgjobs.worker.unanswered import Unanswered
from tests.factories import WORKER

LEASE = timedelta(minutes=5)
BACKOFF = {"backoff_base": timedelta(seconds=2), "backoff_cap": timedelta(minutes=10)}


def claim_jobs(connection, **values):
    defaults = {
        "queue": "default",
        "worker_id": WORKER,
        "limit": 10,
        "lease": LEASE,
        "after_tenant": -1,
        "offset": 0.5,
        "default_weight": 10,
    }
    return claims.claim_jobs(connection, **{**defaults, **values})


def claim_jobs_of_tenant(connection, **values):
    defaults = {
        "queue": "default",
        "tenant_id": 0,
        "worker_id": WORKER,
        "limit": 10,
        "lease": LEASE,
    }
    return claims.claim_jobs_of_tenant(connection, **{**defaults, **values})


def claim_jobs_under_caps(connection, **values):
    defaults = {
        "queue": "default",
        "worker_id": WORKER,
        "limit": 10,
        "lease": LEASE,
        "after_tenant": -1,
        "offset": 0.5,
        "default_weight": 10,
    }
    return claims.claim_jobs_under_caps(connection, **{**defaults, **values})


def lock_capped_tenants(connection, **values):
    defaults = {"queue": "default", "limit": 10, "after_tenant": -1}
    return claims.lock_capped_tenants(connection, **{**defaults, **values})


def complete(connection, *jobs, worker=WORKER, now=None, result=None):
    successes = [Success(job.id, job.fence_token, result) for job in jobs]
    return list(finish.complete_jobs(connection, successes, worker_id=worker, now=now))


def end(connection, job, outcome=Outcome.FAILED, *, worker=WORKER, now=None, **values):
    ending = Ending(
        id=job.id,
        fence_token=values.pop("fence_token", job.fence_token),
        outcome=outcome,
        **{name: value for name, value in values.items() if name not in BACKOFF},
    )
    backoff = {name: values.get(name, BACKOFF[name]) for name in BACKOFF}
    return finish.end_attempts(connection, [ending], worker_id=worker, now=now, **backoff)


def renew(connection, job, *, worker=WORKER, fence_token=None, lease=LEASE, **values):
    attempts = [(job.id, fence_token or job.fence_token)]
    (renewal,) = finish.renew_leases(connection, attempts, worker_id=worker, lease=lease, **values)
    return renewal


def check(connection, *jobs, worker=WORKER):
    """Return what is heard of the jobs that are not wanted: owned or not, by id."""
    attempts = [(job.id, job.fence_token) for job in jobs]
    renewals = finish.check_leases(connection, attempts, worker_id=worker)
    return {renewal.id: renewal.is_owned for renewal in renewals}


def resolve(connection, job, fence_token=None, *, worker=WORKER):
    attempts = [(job.id, fence_token or job.fence_token)]
    (resolved,) = finish.resolve_attempts(connection, attempts, worker_id=worker)
    return resolved.is_recorded


def give_back(connection, *, in_hand=(), worker=WORKER):
    """Return the jobs of claims without an answer, which have been given back."""
    unanswered = Unanswered(worker_id=worker, **BACKOFF)
    unanswered.note_error()
    return unanswered.give_back(connection, in_hand)


def reap(connection, **values):
    return maintain.reap_leases(connection, **{"limit": 10, **BACKOFF, **values})


def firing(schedule, slot, **values):
    defaults = {"queue": "default", "priority": 0, "max_attempts": 3, "meta": "{}"}
    return Firing(**{"schedule_id": schedule.id, "slot_at": slot, **defaults, **values})
