"""Who meets whom, and what must be true when they have parted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from django_pgjobs.definitions.registry import Registry
from django_pgjobs.definitions.slots import Defaults
from django_pgjobs.maintenance.running_epochs import RunningEpochs
from django_pgjobs.maintenance.scheduler import Scheduler
from django_pgjobs.states import Outcome
from django_pgjobs.store import administer, claim, enqueue, epochs, maintain, schedules
from tests import factories
from tests.store import calls
from tests.store.test_enqueue import new_job

from .explorer import Operation, Scenario

MINUTE = timedelta(minutes=1)
A, B = "worker-a", "worker-b"


# Statements


def claiming(worker: str, limit: int = 1, now: str | None = None):
    return lambda connection, env: [
        job.id
        for job in calls.claim_jobs(
            connection, worker_id=worker, limit=limit, now=env[now] if now else None
        ).jobs
    ]


def claiming_of_tenant(worker: str, limit: int = 1):
    return lambda connection, env: [
        job.id
        for job in calls.claim_jobs_of_tenant(connection, worker_id=worker, limit=limit).jobs
    ]


def locking(connection, env):
    return calls.lock_capped_tenants(connection)


def completing(connection, env):
    return calls.complete(connection, env["job"], worker=env["worker"])


def ending(outcome: Outcome):
    return lambda connection, env: [
        (row.id, str(row.status))
        for row in calls.end(
            connection, env["job"], outcome, worker=env["worker"], delay=timedelta(0)
        )
    ]


def renewing(connection, env):
    return calls.renew(connection, env["job"], worker=env["worker"]).is_owned


def reaping(connection, env):
    return [(row.id, str(row.status)) for row in calls.reap(connection)]


def cancelling(connection, env):
    rows = administer.cancel_jobs(connection, [env["job"].id], reason="")
    return [(row.id, str(row.status)) for row in rows]


def redriving(connection, env):
    return [row.is_redriven for row in administer.redrive_jobs(connection, [env["job"].id])]


def expiring(connection, env):
    return maintain.expire_jobs(connection, limit=10, now=env["later"])


def staging(connection, env):
    return claim.stage_jobs(connection, limit=10).staged


def moving(connection, env):
    return epochs.move_epoch(connection)


def restamping(connection, env):
    return epochs.restamp_pending(connection, limit=10)


def raising(connection, env):
    return epochs.raise_epoch_low(connection, epoch=epochs.read_epochs(connection).epoch)


def writing_floors(connection, env):
    env["floors"] = epochs.write_floors(connection, epoch=epochs.read_epochs(connection).epoch)
    return env["floors"].floors


def writing_floors_again(connection, env):
    low = epochs.read_epochs(connection).epoch_low
    env["floors"] = epochs.write_floors(connection, epoch=low)
    return env["floors"].floors


def using_floors(connection, env):
    return epochs.use_floors(connection, generation=env["floors"].generation)


def forgetting_floors(connection, env):
    return epochs.forget_floors(connection)


def keeping_running_epochs(connection, env):
    keeper = env.setdefault("keeper", RunningEpochs(claims_per_epoch=0))
    return keeper.step(connection, epochs.read_epochs(connection), batch_size=10)


def restamping_running(connection, env):
    return epochs.restamp_running(connection, limit=10)


def raising_running(connection, env):
    epoch = epochs.read_epochs(connection).running_epoch
    return epochs.raise_running_epoch_low(connection, epoch=epoch)


def rolling_back(connection, env):
    connection.execute("ROLLBACK AND CHAIN")
    return []


def enqueueing(connection, env):
    return enqueue.enqueue_job(connection, new_job(tenant_id=1, idempotency_key="k"))


def enqueueing_urgent(connection, env):
    return enqueue.enqueue_job(connection, new_job(priority=5))


def firing(connection, env):
    return schedules.fire_slots(connection, [calls.firing(env["schedule"], env["slot"])])


def scheduling(now: str):
    def schedule(connection, env):
        scheduler = Scheduler(
            registry=Registry(), defaults=Defaults(queue="default", max_attempts=3), listen=False
        )
        return scheduler.run_once(connection, batch_size=10, now=env[now]).touched

    return schedule


def operation(name: str, *statements) -> Operation:
    return Operation(name, statements)


CLAIM_A, CLAIM_B, CLAIM_C = (operation(f"claim {w}", claiming(f"worker-{w}")) for w in "abc")
CAPPED_A, CAPPED_B, CAPPED_C = (
    operation(f"claim {w}", locking, claiming(f"worker-{w}", limit=3)) for w in "abc"
)
COMPLETE = operation("complete", completing)
FAIL = operation("fail", ending(Outcome.FAILED))
SNOOZE = operation("snooze", ending(Outcome.SNOOZED))
RENEW = operation("renew", renewing)
REAP = operation("reap", reaping)
CANCEL = operation("cancel", cancelling)
EXPIRE = operation("expire", expiring)
RESTART = operation("stage and claim", staging, claiming(A))
END_RUNNING = Operation("end epoch", [restamping_running, raising_running], is_atomic=False)
MAINTAIN = Operation("maintain", [moving, restamping, raising], is_atomic=False)
KEEP_RUNNING = Operation("maintain", [keeping_running_epochs] * 3, is_atomic=False)
KEEP = Operation("keep", [moving, writing_floors, using_floors, raising], is_atomic=False)
WRITE_AGAIN = Operation(
    "write again", [writing_floors_again, using_floors, forgetting_floors], is_atomic=False
)
UNDONE = operation("undone", claiming(A), rolling_back)


# What they meet on


def one_pending(connection) -> dict[str, Any]:
    now = factories.server_now()
    job = factories.pending_job(expires_at=now + MINUTE)
    return {"job": job, "now": now, "later": now + 2 * MINUTE}


def two_pending(connection) -> dict[str, Any]:
    return {"jobs": factories.pending_jobs(2)}


def expired_lease(**values):
    def prepare(connection) -> dict[str, Any]:
        job = factories.running_job(worker=A, lease_expired_by=MINUTE, **values)
        return {"job": job, "worker": A}

    return prepare


def one_dead(connection) -> dict[str, Any]:
    return {"job": factories.dead_job()}


def one_due(connection) -> dict[str, Any]:
    return {"job": factories.scheduled_job(due_in=-MINUTE)}


def capped(pending: int, running: int = 0):
    def prepare(connection) -> dict[str, Any]:
        factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
        for _ in range(running):
            factories.running_job(tenant_id=1)
        factories.pending_jobs(pending, tenant_id=1)
        return {}

    return prepare


def moved_epoch(connection) -> dict[str, Any]:
    """One job runs in an old epoch, which is its tenant's cap; one is pending."""
    factories.TenantConfigFactory(tenant_id=1, max_concurrent_jobs=1)
    job = factories.running_job(tenant_id=1, epoch=1)
    factories.pending_job(tenant_id=1)
    connection.execute("SELECT setval('jobs_running_epoch', 2)")
    return {"job": job, "worker": A}


def kept(pending: int):
    """Jobs of an epoch that is kept."""

    def prepare(connection) -> dict[str, Any]:
        factories.pending_jobs(pending)
        env: dict[str, Any] = {}
        for step in (moving, writing_floors, using_floors, raising):
            step(connection, env)
        return env

    return prepare


def reissued_token(connection) -> dict[str, Any]:
    """After an asynchronous failover a token may be issued again, to somebody else."""
    return {"job": factories.running_job(worker=B, lease_expired_by=MINUTE), "worker": A}


def a_slot(connection) -> dict[str, Any]:
    return {"schedule": factories.CronScheduleFactory(), "slot": factories.server_now()}


def two_slots(connection) -> dict[str, Any]:
    """The slot of the last minute, and the one of the minute after."""
    start = factories.server_now().replace(second=0, microsecond=0)
    factories.CronScheduleFactory(overlap="skip", active_since=start - timedelta(seconds=1))
    return {"first": start, "second": start + MINUTE}


# What must be true


def count(connection: psycopg.Connection, table: str, condition: str = "true") -> int:
    return connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]


def statuses(connection: psycopg.Connection) -> list[str]:
    query = (
        "SELECT status::text FROM jobs_active UNION ALL SELECT status::text FROM jobs_completed"
    )
    return [status for (status,) in connection.execute(query)]


def claimed_exactly(number: int):
    def check(connection, env, results):
        claimed = [job_id for ids in results.values() for job_id in ids]
        assert len(claimed) == len(set(claimed)) == number, results
        assert count(connection, "jobs_active", "status = 'running'") == number

    return check


def one_of_two(first: str, second: str):
    def check(connection, env, results):
        assert bool(results[first]) != bool(results[second]), results
        cancellation_is_kept(connection, env, results)

    return check


def cancellation_is_kept(connection, env, results):
    """Whoever was told that a job is or will be cancelled can rely on it."""
    if not results.get("cancel"):
        return
    kept = count(connection, "jobs_completed", "status = 'cancelled'") + count(
        connection, "jobs_active", "cancel_requested"
    )
    assert kept == 1, (results, statuses(connection))


def attempt_ended_once(connection, env, results):
    ended = [name for name in ("complete", "fail", "snooze", "reap") if results.get(name)]
    assert len(ended) <= 1, results
    cancellation_is_kept(connection, env, results)


def renewed_or_reaped(connection, env, results):
    assert results["renew"] or results["reap"], results
    if not results["reap"]:
        assert count(connection, "jobs_active", "lease_expires > now()") == 1


def zombie_is_fenced(connection, env, results):
    assert bool(results["complete"]) != bool(results["reap"]), results
    if results["complete"]:
        assert statuses(connection) == ["completed"]
    elif results["stage and claim"]:
        assert statuses(connection) == ["running"]


def fenced(connection, env, results):
    assert not any(results.values()), results
    assert statuses(connection) == ["running"]
    assert count(connection, "jobs_active", "lease_expires < now()") == 1


def redriven_once(connection, env, results):
    assert sorted(map(str, results.values())) == ["[True]", "[]"], results
    assert statuses(connection) == ["pending"]
    assert count(connection, "jobs_active", "generation = 1") == 1


def claimed_or(name: str):
    def check(connection, env, results):
        (claim_result,) = (results[key] for key in results if key != name)
        assert bool(claim_result) != bool(results[name]) or (
            name == "cancel" and results[name][0][1] == "running"
        ), results

    return check


def nothing_is_lost(connection, env, results):
    """The sweep finds what came late; then every job is claimed."""
    with connection.transaction():
        connection.execute("SET LOCAL protocol.operation = ''")
        restamping(connection, env)
        calls.claim_jobs(connection)
    assert set(statuses(connection)) == {"running"}, statuses(connection)


def claims_find_all(connection, env, results):
    """Without a sweep: nobody came late. Nothing was claimed twice either."""
    claimed = [job_id for name in results if "claim" in name for job_id in results[name]]
    assert len(claimed) == len(set(claimed)), results
    with connection.transaction():
        connection.execute("SET LOCAL protocol.operation = ''")
        calls.claim_jobs(connection)
    assert set(statuses(connection)) == {"running"}, statuses(connection)


def cap_is_kept(connection, env, results):
    running = count(connection, "jobs_active", "status = 'running'")
    assert running <= 1, (running, results)


def cap_is_kept_afterwards(connection, env, results):
    with connection.transaction():
        calls.lock_capped_tenants(connection)
        calls.claim_jobs(connection, worker_id=B)
    cap_is_kept(connection, env, results)


def staged_once(connection, env, results):
    assert sorted(results.values()) == [0, 1], results


def one_winner(connection, env, results):
    assert [value is None for value in results.values()].count(False) == 1, results
    assert len(statuses(connection)) == 1


def fired_once(connection, env, results):
    assert sorted(len(fired) for fired in results.values()) == [0, 1], results
    assert len(statuses(connection)) == 1


def no_overlap(connection, env, results):
    """Two slots have come, and the second is not fired while the job of the first waits."""
    assert len(statuses(connection)) == 1, (results, statuses(connection))


SCENARIOS = [
    Scenario(
        "three claims of one job", one_pending, [CLAIM_A, CLAIM_B, CLAIM_C], claimed_exactly(1)
    ),
    Scenario(
        "three claims of two jobs", two_pending, [CLAIM_A, CLAIM_B, CLAIM_C], claimed_exactly(2)
    ),
    Scenario(
        "two kinds of claims of one job",
        one_pending,
        [operation("claim a", claiming_of_tenant(A)), CLAIM_B],
        claimed_exactly(1),
    ),
    Scenario(
        "three claims under a cap", capped(3), [CAPPED_A, CAPPED_B, CAPPED_C], claimed_exactly(1)
    ),
    Scenario(
        "complete and reap", expired_lease(), [COMPLETE, REAP], one_of_two("complete", "reap")
    ),
    Scenario("fail and reap", expired_lease(), [FAIL, REAP], one_of_two("fail", "reap")),
    Scenario(
        "last failure and reap", expired_lease(attempt=3), [FAIL, REAP], one_of_two("fail", "reap")
    ),
    Scenario("snooze and reap", expired_lease(), [SNOOZE, REAP], one_of_two("snooze", "reap")),
    Scenario("renew and reap", expired_lease(), [RENEW, REAP], renewed_or_reaped),
    Scenario("cancel and reap", expired_lease(), [CANCEL, REAP], attempt_ended_once),
    Scenario("cancel and complete", expired_lease(), [CANCEL, COMPLETE], attempt_ended_once),
    Scenario("cancel and fail", expired_lease(), [CANCEL, FAIL], attempt_ended_once),
    Scenario("cancel and snooze", expired_lease(), [CANCEL, SNOOZE], attempt_ended_once),
    Scenario("cancel and renew", expired_lease(), [CANCEL, RENEW], attempt_ended_once),
    Scenario(
        "complete, cancel and reap", expired_lease(), [COMPLETE, CANCEL, REAP], attempt_ended_once
    ),
    Scenario(
        "two completions",
        expired_lease(),
        [COMPLETE, operation("complete again", completing)],
        one_of_two("complete", "complete again"),
    ),
    Scenario(
        "complete and fail", expired_lease(), [COMPLETE, FAIL], one_of_two("complete", "fail")
    ),
    Scenario(
        "two reapers",
        expired_lease(),
        [REAP, operation("reap again", reaping)],
        one_of_two("reap", "reap again"),
    ),
    Scenario(
        "a zombie, the reaper and the next claim of the same worker",
        expired_lease(),
        [COMPLETE, REAP, RESTART],
        zombie_is_fenced,
    ),
    Scenario("a token issued twice, complete", reissued_token, [COMPLETE, RENEW], fenced),
    Scenario("a token issued twice, fail", reissued_token, [FAIL, RENEW], fenced),
    Scenario(
        "two redrives",
        one_dead,
        [operation("redrive a", redriving), operation("redrive b", redriving)],
        redriven_once,
    ),
    Scenario(
        "expire and claim",
        one_pending,
        [EXPIRE, operation("claim", claiming(A, now="now"))],
        claimed_or("expire"),
    ),
    Scenario("cancel and claim", one_pending, [CANCEL, CLAIM_A], claimed_or("cancel")),
    Scenario(
        "two stagers",
        one_due,
        [operation("stage a", staging), operation("stage b", staging)],
        staged_once,
    ),
    Scenario(
        "a new epoch, a claim and a late commit",
        two_pending,
        [MAINTAIN, CLAIM_A, operation("enqueue", enqueueing)],
        nothing_is_lost,
    ),
    Scenario(
        "a new epoch and a late commit",
        lambda connection: {},
        [MAINTAIN, operation("enqueue", enqueueing)],
        nothing_is_lost,
    ),
    Scenario(
        "the end of an epoch and a cap that is used",
        moved_epoch,
        [END_RUNNING, CAPPED_A],
        cap_is_kept,
    ),
    Scenario(
        "the end of an epoch, a renewal and a cap that is used",
        moved_epoch,
        [END_RUNNING, RENEW],
        cap_is_kept_afterwards,
    ),
    Scenario(
        "a new epoch and a cap that is used",
        capped(2, running=1),
        [KEEP_RUNNING, CAPPED_A],
        cap_is_kept,
    ),
    Scenario(
        "a new epoch, a claim under a cap, and then the next one",
        capped(2),
        [KEEP_RUNNING, CAPPED_A],
        cap_is_kept_afterwards,
    ),
    Scenario(
        "a new epoch and two claims under a cap",
        capped(3),
        [KEEP_RUNNING, CAPPED_A, CAPPED_B],
        cap_is_kept,
    ),
    Scenario(
        "a new epoch and a claim that is undone",
        two_pending,
        [MAINTAIN, UNDONE, CLAIM_B],
        claims_find_all,
    ),
    Scenario(
        "a backlog is kept, a claim and a late commit",
        two_pending,
        [KEEP, CLAIM_A, operation("enqueue", enqueueing_urgent)],
        nothing_is_lost,
    ),
    Scenario(
        "a backlog is kept and two claims take from it",
        two_pending,
        [KEEP, CLAIM_A, CLAIM_B],
        claims_find_all,
    ),
    Scenario(
        "floors are written again, a claim and one that is undone",
        kept(3),
        [WRITE_AGAIN, UNDONE, CLAIM_B],
        claims_find_all,
    ),
    Scenario(
        "floors are written twice",
        kept(2),
        [
            WRITE_AGAIN,
            Operation("write too", WRITE_AGAIN.statements, is_atomic=False),
            CLAIM_A,
        ],
        nothing_is_lost,
    ),
    Scenario(
        "one slot fired twice",
        a_slot,
        [operation("fire a", firing), operation("fire b", firing)],
        fired_once,
    ),
    Scenario(
        "two schedulers and jobs that must not overlap",
        two_slots,
        [
            Operation("first slot", [scheduling("first")], is_atomic=False),
            Operation("second slot", [scheduling("second")], is_atomic=False),
        ],
        no_overlap,
    ),
    Scenario(
        "one key enqueued twice",
        lambda connection: {},
        [operation("a", enqueueing), operation("b", enqueueing)],
        one_winner,
    ),
]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
