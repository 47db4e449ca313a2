"""Everything at once on the same hundred jobs: no deadlock, and a legal end for each."""

from __future__ import annotations

import threading
from datetime import timedelta
from random import Random

from django_pgjobs.states import Outcome
from django_pgjobs.store.administer import cancel_jobs, redrive_jobs
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.epochs import (
    forget_floors,
    move_epoch,
    raise_epoch_low,
    restamp_pending,
    restamp_running,
    use_floors,
    write_floors,
)
from django_pgjobs.store.finish import Ending, Success, complete_jobs, end_attempts, renew_leases
from django_pgjobs.store.maintain import expire_jobs, grant_grace, reap_leases
from tests.invariants import check_invariants
from tests.worker.claims import claimer, fill

SOON = timedelta(milliseconds=1)
BACKOFF = {"backoff_base": SOON, "backoff_cap": SOON}
ROUNDS = 60


def work(connection, number: int) -> None:
    """Claim, renew and end attempts, well or badly, in batches of any order."""
    name, random = f"worker-{number}", Random(number)
    claims = claimer(name, seed=number)
    claims.lease = SOON if number % 2 else timedelta(minutes=5)
    for _ in range(ROUNDS):
        jobs = claims.claim(connection, random.randint(1, 30))
        random.shuffle(jobs)
        renew_leases(
            connection,
            [(job.id, job.fence_token) for job in jobs],
            worker_id=name,
            lease=claims.lease,
        )
        half = len(jobs) // 2
        successes = [Success(job.id, job.fence_token, None) for job in jobs[:half]]
        complete_jobs(connection, successes, worker_id=name)
        outcomes = [Outcome.FAILED, Outcome.SNOOZED, Outcome.RELEASED, Outcome.CANCELLED]
        endings = [
            Ending(
                id=job.id,
                fence_token=job.fence_token,
                outcome=random.choice(outcomes),
                delay=SOON,
            )
            for job in jobs[half:]
        ]
        end_attempts(connection, endings, worker_id=name, **BACKOFF)


def operate(connection, ids: list[int]) -> None:
    """Cancel and redrive, in batches of any order."""
    random = Random(99)
    for _ in range(ROUNDS * 2):
        some = random.sample(ids, 40)
        cancel_jobs(connection, some, reason="test")
        redrive_jobs(connection, random.sample(ids, 40))


def maintain(connection) -> None:
    """Reap, stage, expire, restamp, keep epochs and grant grace."""
    for number in range(ROUNDS * 2):
        reap_leases(connection, limit=50, **BACKOFF)
        stage_jobs(connection, limit=50)
        expire_jobs(connection, limit=50)
        restamp_pending(connection, limit=50)
        restamp_running(connection, limit=50)
        if number % 10 == 0:
            grant_grace(connection, grace=SOON)
        if number % 20 == 0:
            keep_backlog(connection)


def keep_backlog(connection) -> None:
    """Keep the epoch, as two maintenance processes that both believe to lead."""
    epoch = move_epoch(connection)
    use_floors(connection, generation=write_floors(connection, epoch=epoch).generation)
    raise_epoch_low(connection, epoch=epoch)
    forget_floors(connection)


def test_cancel_redrive_complete_fail_reap_and_expire_never_deadlock(connect):
    setup = connect()
    fill(setup, 1, 100)
    ids = [job_id for (job_id,) in setup.execute("SELECT id FROM jobs_active")]
    errors: list[Exception] = []

    def run(act, *arguments):
        try:
            act(connect(options="-c deadlock_timeout=50ms"), *arguments)
        except Exception as error:
            errors.append(error)
            raise

    acts = [(work, 1), (work, 2), (work, 3), (operate, ids), (maintain,), (maintain,)]
    threads = [threading.Thread(target=run, args=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert errors == []
    assert check_invariants(setup) == []
    found = setup.execute(
        "SELECT id FROM jobs_active UNION ALL SELECT id FROM jobs_completed ORDER BY id"
    ).fetchall()
    assert [job_id for (job_id,) in found] == sorted(ids)
