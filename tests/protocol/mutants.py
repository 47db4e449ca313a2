"""Guards taken out of the statements, and who must notice.

A test of a guard counts only when it fails without the guard. Each mutant takes one out
by a change of the text; a scenario of the explorer, or an oracle of this module, must fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from django_pgjobs.models import ActiveJob, JobAttempt
from django_pgjobs.store import schedules
from tests import factories
from tests.store import calls
from tests.worker.claims import claimer

Change = tuple[str, str]


@dataclass(frozen=True)
class Mutant:
    """A statement without one of its guards.

    Attributes:
        name: what is missing.
        changes: of the statements, by name; of every occurrence, and there must be one.
        killers: the scenarios that must notice, each of them.
        oracle: fails on the mutant, where no interleaving is needed.
    """

    name: str
    changes: dict[str, list[Change]]
    killers: tuple[str, ...] = ()
    oracle: Callable[[psycopg.Connection], None] | None = None

    def __str__(self) -> str:
        return self.name


# The same worker claims again what it has lost: only the token tells its two attempts apart.
ZOMBIE = "a zombie, the reaper and the next claim of the same worker"


def refused(connection, job) -> None:
    """Assert that nobody can write anything as worker-a with the token of ``job``."""
    assert calls.complete(connection, job) == []
    assert calls.end(connection, job) == []
    assert not calls.renew(connection, job).is_owned
    assert calls.check(connection, job) == {job.id: False}
    assert not JobAttempt.objects.exists()


def a_stale_token_is_refused(connection):
    job = factories.running_job()
    job.fence_token -= 1
    refused(connection, job)


def another_worker_is_refused(connection):
    refused(connection, factories.running_job(worker="worker-b"))


def a_job_that_does_not_run_is_refused(connection):
    """A CHECK makes such rows impossible; the fence must not lean on it."""
    job = factories.running_job()
    with connection.transaction(force_rollback=True):
        connection.execute("ALTER TABLE jobs_active DROP CONSTRAINT jobs_active_lease")
        connection.execute("UPDATE jobs_active SET status = 'pending'")
        assert calls.complete(connection, job) == []
        assert calls.end(connection, job) == []
        assert not calls.renew(connection, job).is_owned
        assert calls.check(connection, job) == {job.id: False}
        assert connection.execute("SELECT count(*) FROM job_attempts").fetchone() == (0,)


def a_live_lease_is_not_reaped(connection):
    factories.running_job()
    assert calls.reap(connection) == []


def a_stalled_lease_is_not_renewed(connection):
    job = factories.running_job(lease_expired_by=calls.LEASE)
    calls.renew(connection, job, stalled={job.fence_token})
    assert calls.reap(connection) != []


def a_cancelled_attempt_is_lost_too(connection):
    job = factories.running_job(cancel_requested=True, lease_expired_by=calls.LEASE)
    calls.reap(connection)
    assert not calls.resolve(connection, job)


def what_is_in_hand_has_an_answer(connection):
    job = factories.running_job()
    assert calls.give_back(connection, in_hand=[job.fence_token]) == []


def a_slot_fires_once(connection):
    schedule, slot = factories.CronScheduleFactory(), factories.server_now()
    schedules.fire_slots(connection, [calls.firing(schedule, slot)])
    assert schedules.fire_slots(connection, [calls.firing(schedule, slot)]) == []
    assert ActiveJob.objects.count() == 1


def the_mark_of_a_schedule_does_not_go_back(connection):
    schedule, now = factories.CronScheduleFactory(), factories.server_now()
    for handled_until in (now, None, now - calls.LEASE):
        advance = schedules.Advance(
            id=schedule.id, handled_until=handled_until, next_run_at=now + calls.LEASE
        )
        schedules.advance_schedules(connection, [advance])
        schedule.refresh_from_db()
        assert schedule.last_slot_at == now


def no_slot_from_before_a_schedule_was_resumed(connection):
    now = factories.server_now()
    factories.CronScheduleFactory(active_since=now, last_slot_at=now - calls.LEASE)
    (due,) = schedules.lock_due_schedules(connection, limit=10)
    assert due.handled_until == now


def a_paused_schedule_does_not_fire(connection):
    factories.CronScheduleFactory(enabled=False)
    assert schedules.lock_due_schedules(connection, limit=10) == []


def a_removed_schedule_does_not_fire(connection):
    factories.CronScheduleFactory(removed_at=factories.server_now())
    assert schedules.lock_due_schedules(connection, limit=10) == []


def an_open_breaker_keeps_its_jobs(connection):
    factories.BreakerFactory(state="open")
    factories.pending_job()
    assert calls.claim_jobs(connection).jobs == []
    assert calls.claim_jobs_of_tenant(connection).jobs == []


def what_a_breaker_does_not_name_is_claimed(connection):
    factories.BreakerFactory(state="open")
    factories.pending_job(job_name="tests.other")
    assert len(calls.claim_jobs(connection).jobs) == 1


def a_capped_tenant_waits_for_its_lock(connection):
    factories.TenantConfigFactory(tenant_id=0, max_concurrent_jobs=5)
    factories.pending_job()
    assert calls.claim_jobs(connection).jobs == []
    assert calls.claim_jobs_of_tenant(connection).jobs == []


def a_cap_counts_what_runs(connection):
    factories.TenantConfigFactory(tenant_id=0, max_concurrent_jobs=2)
    factories.running_job(queue_name="other")
    factories.pending_jobs(3)
    assert len(calls.claim_jobs_under_caps(connection).jobs) == 1


def a_paused_queue_gives_nothing(connection):
    factories.PausedQueueFactory()
    factories.pending_job()
    assert calls.claim_jobs(connection).jobs == []
    assert calls.claim_jobs_of_tenant(connection).jobs == []


def what_has_expired_is_not_started(connection):
    factories.pending_job(expires_at=factories.server_now() - calls.LEASE)
    assert calls.claim_jobs(connection).jobs == []
    assert calls.claim_jobs_of_tenant(connection).jobs == []


def what_cannot_be_taken_holds_up_nobody(connection):
    factories.TenantConfigFactory(tenant_id=1, quota_weight=1000, priority_boost=10)
    factories.pending_job(tenant_id=1, expires_at=factories.server_now() - calls.LEASE)
    factories.pending_jobs(3, tenant_id=2)
    taken = [len(claims.claim(connection, 1)) for claims in [claimer()] for _ in range(3)]
    assert taken == [1, 1, 1]


def who_is_at_its_cap_does_not_count_for_the_mean(connection):
    factories.TenantConfigFactory(tenant_id=1, quota_weight=1000, max_concurrent_jobs=0)
    factories.pending_job(tenant_id=1)
    factories.pending_job(tenant_id=2)
    assert calls.claim_jobs(connection).mean_weight == 10


def a_suspect_is_buried(connection):
    factories.running_job(losses=2, max_attempts=9, lease_expired_by=calls.LEASE)
    assert [row.status for row in calls.reap(connection)] == ["dead"]


def company_costs_no_attempt(connection):
    for _ in range(2):
        factories.running_job(lease_expired_by=calls.LEASE)
    calls.reap(connection)
    query = "SELECT array_agg(attempt) FROM jobs_active"
    assert connection.execute(query).fetchone() == ([0, 0],)


def one_run_is_one_run(connection):
    for _ in range(2):
        factories.running_job(max_attempts=1, lease_expired_by=calls.LEASE)
    assert [row.status for row in calls.reap(connection)] == ["dead", "dead"]


# What is taken out. Conditions become true, so that what stands around them still fits.
TOKEN = [
    ("AND jobs_active.fence_token = given.fence_token", "AND true"),
]
WORKER = [("AND jobs_active.locked_by = %(worker_id)s::text", "AND true")]
RUNNING = [("AND jobs_active.status = 'running'", "AND true")]
LOCK = ("FOR NO KEY UPDATE SKIP LOCKED", "")
CONFLICT = "ON CONFLICT (schedule_id, slot_at) DO UPDATE SET job_id = EXCLUDED.job_id"
FULL_LOCK = ("FOR UPDATE SKIP LOCKED", "")

# Not here, because another guard makes up for them: the second look of a claim and of a
# stager, and the lock of cancel_jobs. What they would let through is refused when the row
# is written, by its place and its status; the locks keep operations from waiting in line.
MUTANTS = [
    Mutant(
        "complete without the token",
        {"finish/complete_jobs": TOKEN},
        (ZOMBIE,),
        a_stale_token_is_refused,
    ),
    Mutant(
        "complete without the worker",
        {"finish/complete_jobs": WORKER},
        ("a token issued twice, complete",),
        another_worker_is_refused,
    ),
    Mutant(
        "complete without the status",
        {"finish/complete_jobs": RUNNING},
        oracle=a_job_that_does_not_run_is_refused,
    ),
    Mutant(
        "complete without the request to cancel",
        {"finish/complete_jobs": [("CASE WHEN finished.cancel_requested", "CASE WHEN false")]},
        ("cancel and complete",),
    ),
    # Where an attempt is ended and where it is renewed, its row is locked under the fence and
    # then written under the fence. The second repeats the first: a locked row cannot change.
    Mutant(
        "end without the token", {"finish/end_attempts": TOKEN}, oracle=a_stale_token_is_refused
    ),
    Mutant(
        "end without the worker",
        {"finish/end_attempts": WORKER},
        ("a token issued twice, fail",),
        another_worker_is_refused,
    ),
    Mutant(
        "end without the status",
        {"finish/end_attempts": RUNNING},
        oracle=a_job_that_does_not_run_is_refused,
    ),
    Mutant(
        "end without the request to cancel",
        {"finish/end_attempts": [("job.cancel_requested OR", "")]},
        ("cancel and fail", "cancel and snooze"),
    ),
    Mutant(
        "end without the lock",
        {"finish/end_attempts": [("        FOR UPDATE\n", "")]},
        ("fail and reap", "complete and fail"),
    ),
    Mutant(
        "renew though progress stands still",
        {"finish/renew_leases": [("    WHERE given.extends\n", "")]},
        oracle=a_stalled_lease_is_not_renewed,
    ),
    Mutant(
        "renew without the token", {"finish/renew_leases": TOKEN}, oracle=a_stale_token_is_refused
    ),
    Mutant(
        "renew without the worker",
        {"finish/renew_leases": WORKER},
        ("a token issued twice, complete",),
        another_worker_is_refused,
    ),
    Mutant(
        "give back what is in hand",
        {
            "claim/find_unanswered": [
                ("AND jobs_active.fence_token <> ALL (%(fence_tokens)s::bigint[])", "")
            ]
        },
        oracle=what_is_in_hand_has_an_answer,
    ),
    Mutant(
        "look without the token", {"finish/check_leases": TOKEN}, oracle=a_stale_token_is_refused
    ),
    Mutant(
        "look without the worker",
        {"finish/check_leases": WORKER},
        oracle=another_worker_is_refused,
    ),
    Mutant(
        "look without the status",
        {"finish/check_leases": RUNNING},
        oracle=a_job_that_does_not_run_is_refused,
    ),
    Mutant(
        "renew without the status",
        {"finish/renew_leases": RUNNING},
        oracle=a_job_that_does_not_run_is_refused,
    ),
    # The token and the worker in the writes of the reaper repeat what it has locked.
    Mutant(
        "reap without the lock",
        {"maintain/reap_leases": [FULL_LOCK]},
        ("complete and reap", "fail and reap", "two reapers"),
    ),
    Mutant(
        "reap a lease that is alive",
        {"maintain/reap_leases": [("AND jobs_active.lease_expires <", "AND 'infinity' >")]},
        oracle=a_live_lease_is_not_reaped,
    ),
    Mutant(
        "reap without an attempt",
        {
            "maintain/reap_leases": [
                ("    FROM expired\n),\nwaiting", "    FROM expired\n    WHERE false\n),\nwaiting")
            ]
        },
        ("complete and reap", ZOMBIE),
    ),
    Mutant(
        "reap without the request to cancel",
        {"maintain/reap_leases": [("WHEN found.cancel_requested", "WHEN false")]},
        ("cancel and reap",),
    ),
    Mutant(
        "reap a cancelled job as if its worker had ended it",
        {"maintain/reap_leases": [("        'lost',\n", "        'cancelled',\n")]},
        oracle=a_cancelled_attempt_is_lost_too,
    ),
    Mutant(
        "claim without the lock and without another look",
        {
            "claim/claim_jobs": [
                LOCK,
                ("picked))\n        AND jobs_active.locked_at IS NULL", "picked))"),
            ]
        },
        ("three claims of two jobs",),
    ),
    Mutant(
        "claim without the lock",
        {"claim/claim_jobs": [LOCK]},
        ("three claims of two jobs",),
    ),
    Mutant(
        "cap without the lock",
        {"claim/lock_capped_tenants": [LOCK]},
        ("three claims under a cap", "a new epoch and two claims under a cap"),
    ),
    Mutant(
        "claim for capped tenants without their locks",
        {
            "claim/claim_jobs": [
                (
                    "WHEN visited.tenant_id = ANY (string",
                    "WHEN true OR visited.tenant_id = ANY (string",
                )
            ]
        },
        oracle=a_capped_tenant_waits_for_its_lock,
    ),
    Mutant(
        "claim for a capped tenant that is alone",
        {
            "claim/claim_jobs_of_tenant": [
                ("AND tenant_config.max_concurrent_jobs IS NOT NULL", "AND false")
            ]
        },
        oracle=a_capped_tenant_waits_for_its_lock,
    ),
    Mutant(
        "cap of a queue",
        {
            "claim/claim_jobs": [
                (
                    "greatest(0, tenant_config.max_concurrent_jobs - capped.count)",
                    "greatest(0, tenant_config.max_concurrent_jobs - running.count)",
                )
            ]
        },
        oracle=a_cap_counts_what_runs,
    ),
    Mutant(
        "claim from a paused queue",
        {"claim/claim_jobs": [("AND queue_config.paused", "AND false")]},
        oracle=a_paused_queue_gives_nothing,
    ),
    Mutant(
        "claim from a paused queue of one tenant",
        {"claim/claim_jobs_of_tenant": [("AND queue_config.paused", "AND false")]},
        oracle=a_paused_queue_gives_nothing,
    ),
    Mutant(
        "start what has expired",
        {"claim/claim_jobs": [("jobs_active.expires_at IS NULL", "true")]},
        oracle=what_has_expired_is_not_started,
    ),
    Mutant(
        "start what has expired of one tenant",
        {"claim/claim_jobs_of_tenant": [("jobs_active.expires_at IS NULL", "true")]},
        oracle=what_has_expired_is_not_started,
    ),
    Mutant(
        "parts that nobody can take",
        {"claim/claim_jobs": [("WHEN %(evenly)s::boolean THEN %(limit)s::integer", "")]},
        oracle=what_cannot_be_taken_holds_up_nobody,
    ),
    Mutant(
        "a mean over tenants at their caps",
        {"claim/claim_jobs": [("WHERE entitled.room > 0) AS mean_weight", ") AS mean_weight")]},
        oracle=who_is_at_its_cap_does_not_count_for_the_mean,
    ),
    Mutant(
        "cap counted from the lowest epoch of the moment",
        {
            "claim/claim_jobs": [
                (
                    "nullif(current_setting('pgjobs.running_epoch_low', true), '')::bigint",
                    "NULL::bigint",
                )
            ]
        },
        ("the end of an epoch and a cap that is used",),
    ),
    Mutant(
        "an epoch of running rows ends while rows are left",
        {
            "maintain/raise_running_epoch_low": [
                ("AND jobs_active.locked_at IS NOT NULL", "AND false"),
            ]
        },
        ("the end of an epoch, a renewal and a cap that is used",),
    ),
    Mutant(
        "an epoch of running rows ends while a claim is under way",
        {"maintain/list_claims": [("WHERE pg_locks", "WHERE false AND pg_locks")]},
        ("a new epoch, a claim under a cap, and then the next one",),
    ),
    Mutant(
        "an epoch ends while rows are left",
        {
            "maintain/raise_epoch_low": [
                (
                    "    WHERE NOT EXISTS (SELECT FROM kept",
                    "    WHERE false AND NOT EXISTS (SELECT FROM kept",
                )
            ]
        },
        ("a new epoch and a claim that is undone",),
    ),
    Mutant(
        "a sweep that finds no pending rows",
        {
            "maintain/restamp_pending": [
                ("epoch < (SELECT place.oldest FROM place)", "epoch < 0"),
            ]
        },
        ("a new epoch and a late commit",),
    ),
    Mutant(
        "a sweep that believes every floor",
        {
            "maintain/restamp_pending": [
                (
                    "OR (jobs_active.claim_order, jobs_active.id) <",
                    "OR false AND (jobs_active.claim_order, jobs_active.id) <",
                ),
            ]
        },
        ("a backlog is kept, a claim and a late commit",),
    ),
    Mutant(
        "a floor behind rows that somebody has locked",
        {
            "maintain/write_floors": [
                (
                    "LIMIT 1\n        ) AS front",
                    "LIMIT 1\n            FOR NO KEY UPDATE SKIP LOCKED\n        ) AS front",
                ),
            ]
        },
        ("floors are written again, a claim and one that is undone",),
    ),
    Mutant(
        "claim through an open breaker",
        {
            name: [("breakers.state <> 'closed'\n),", "false\n),")]
            for name in ("claim/claim_jobs", "claim/claim_jobs_of_tenant")
        },
        oracle=an_open_breaker_keeps_its_jobs,
    ),
    Mutant(
        "hold what is not of the breaker",
        {
            "claim/claim_jobs": [
                ("jobs_active.job_name = ANY ((SELECT held", "'tests.noop' = ANY ((SELECT held"),
            ]
        },
        oracle=what_a_breaker_does_not_name_is_claimed,
    ),
    Mutant(
        "reap a suspect like any other",
        {"maintain/reap_leases": [("WHEN found.losses >= 2 THEN", "WHEN false THEN")]},
        oracle=a_suspect_is_buried,
    ),
    Mutant(
        "charge the neighbours of a killer",
        {"maintain/reap_leases": [("count(*) > 1 OR EXISTS (", "false AND EXISTS (")]},
        oracle=company_costs_no_attempt,
    ),
    Mutant(
        "run twice what may run once",
        {
            "maintain/reap_leases": [
                ("owners.had_several AND found.max_attempts > 1", "owners.had_several")
            ]
        },
        oracle=one_run_is_one_run,
    ),
    Mutant(
        "redrive a copy",
        {
            "administer/redrive_jobs": [
                (
                    "    WHERE jobs_completed.id = ANY (ARRAY",
                    "    WHERE false AND jobs_completed.id = ANY (ARRAY",
                )
            ]
        },
        ("two redrives",),
    ),
    Mutant(
        "schedules without the lock",
        {"maintain/lock_due_schedules": [("FOR NO KEY UPDATE OF cron_schedules SKIP LOCKED", "")]},
        ("two schedulers and jobs that must not overlap",),
    ),
    Mutant(
        "a job for a slot that has fired",
        {"maintain/fire_slots": [("ON CONFLICT (schedule_id, slot_at) DO NOTHING", CONFLICT)]},
        ("one slot fired twice",),
        a_slot_fires_once,
    ),
    Mutant(
        "a mark of what was dealt with that goes back",
        {
            "maintain/advance_schedules": [
                (
                    "greatest(cron_schedules.last_slot_at, moved.handled_until)",
                    "moved.handled_until",
                )
            ]
        },
        oracle=the_mark_of_a_schedule_does_not_go_back,
    ),
    Mutant(
        "slots from before a schedule was resumed",
        {
            "maintain/lock_due_schedules": [
                (
                    "greatest(cron_schedules.active_since, cron_schedules.last_slot_at)",
                    "cron_schedules.last_slot_at",
                )
            ]
        },
        oracle=no_slot_from_before_a_schedule_was_resumed,
    ),
    Mutant(
        "schedules that are paused",
        {"maintain/lock_due_schedules": [("WHERE cron_schedules.enabled", "WHERE true")]},
        oracle=a_paused_schedule_does_not_fire,
    ),
    Mutant(
        "schedules that are removed",
        {"maintain/lock_due_schedules": [("AND cron_schedules.removed_at IS NULL", "AND true")]},
        oracle=a_removed_schedule_does_not_fire,
    ),
    Mutant(
        "expire what runs",
        {"maintain/expire_jobs": [("AND jobs_active.status <> 'running'", "AND true")]},
        ("expire and claim",),
    ),
]
