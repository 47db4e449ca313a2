"""Random sequences of operations by several workers, against a model of every job.

Each step asks the statements to do something and compares the answer, and then all rows, with a
model in Python. Most of what goes wrong needs a worker that speaks when it should not any more, so
that who speaks is drawn from every claim ever granted. What was met is counted, and a run that
met too little of it has shown nothing: see FLOORS.

Time is the server's, moved by the statements' parameter ``now``.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_pgjobs.states import FINAL, JobStatus, Outcome
from django_pgjobs.store.administer import cancel_jobs, redrive_jobs
from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.enqueue import enqueue_job
from django_pgjobs.store.finish import Ending, Success, complete_jobs, end_attempts, renew_leases
from django_pgjobs.store.maintain import expire_jobs, reap_leases
from tests import factories
from tests.fix_database import empty_rows
from tests.invariants import check_invariants
from tests.store.calls import BACKOFF, claim_jobs
from tests.store.test_enqueue import new_job

from .explorer import replaced_statements
from .mutants import MUTANTS
from .pauses import mutated

pytestmark = pytest.mark.slow

LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
WORKERS = st.sampled_from(["worker-a", "worker-b", "worker-c"])

#: How often a run of 100 examples must meet each of these, at least.
FLOORS = {
    "a second claim of a job": 40,
    "the owner speaks": 40,
    "a stale claim speaks while another runs the job": 25,
    "a stale claim speaks while nobody does": 25,
    "a running job is asked to stop": 10,
    "a cancelled job's attempt ends": 3,
    "a job is reaped and goes on": 25,
    "an exhausted job is reaped": 5,
    "a suspect is buried": 3,
    "a job is dead by failing": 5,
    "a job is redriven": 10,
    "a redrive conflicts": 1,
    "an enqueue meets its key": 5,
    "a job expires": 3,
    "an open breaker holds a job": 10,
}


ACTS = ("complete", "fail", "fail", "refuse", "refuse", "snooze", "release", "cancel", "renew")


@dataclass
class Job:
    """What should be true of a job."""

    status: JobStatus
    max_attempts: int
    key: str | None
    due: datetime
    expires: datetime | None
    attempt: int = 0
    claims: int = 0
    losses: int = 0
    token: int | None = None
    worker: str | None = None
    lease: datetime | None = None
    is_asked: bool = False


@dataclass
class Machine:
    """The connection, and what was met so far."""

    connection: object = None
    met: Counter = field(default_factory=Counter)


MACHINE = Machine()


class Protocol(RuleBasedStateMachine):
    """Producers, workers, maintenance and operators, one step at a time."""

    @initialize()
    def begin(self):
        self.connection = MACHINE.connection
        empty_rows(self.connection)
        self.now = factories.server_now()
        self.jobs: dict[int, Job] = {}
        self.claims: list[tuple[int, int, str]] = []
        self.is_open = False
        factories.BreakerFactory(job_names=["tests.noop"])
        # Without some work at the beginning most sequences are about nothing.
        for max_attempts, ttl in ((1, None), (2, 50), (3, None), (3, 50), (4, None)):
            self.enqueue(max_attempts, key=None, delay=0, ttl=ttl)

    def tick(self, step=timedelta(milliseconds=1)):
        self.now += step

    def running(self):
        return [job_id for job_id, job in self.jobs.items() if job.status == JobStatus.RUNNING]

    def end(self, job, status):
        job.status, job.token, job.worker, job.lease = status, None, None, None
        job.is_asked = False

    # Producers

    @rule(
        max_attempts=st.integers(1, 4),
        key=st.sampled_from([None, None, "k"]),
        delay=st.sampled_from([0, 0, 30]),
        ttl=st.sampled_from([None, None, 50]),
    )
    def enqueue(self, max_attempts, key, delay, ttl):
        self.tick()
        expires = self.now + timedelta(seconds=ttl + delay) if ttl else None
        due = self.now + timedelta(seconds=delay)
        row = new_job(
            job_name="tests.noop",
            max_attempts=max_attempts,
            idempotency_key=key,
            scheduled_at=due if delay else None,
            expires_at=expires,
        )

        job_id = enqueue_job(self.connection, row)

        is_taken = key and any(j.key == key and j.status not in FINAL for j in self.jobs.values())
        assert (job_id is None) == bool(is_taken)
        if is_taken:
            MACHINE.met["an enqueue meets its key"] += 1
            return
        status = self.connection.execute(
            "SELECT status FROM jobs_active WHERE id = %s", [job_id]
        ).fetchone()[0]
        self.jobs[job_id] = Job(JobStatus(status), max_attempts, key, due, expires)

    # Workers

    @rule(worker=WORKERS, limit=st.integers(1, 5))
    def claim(self, worker, limit):
        self.tick()

        claim = claim_jobs(
            self.connection, worker_id=worker, limit=limit, lease=LEASE, now=self.now
        )

        assert len(claim.jobs) <= limit
        for found in claim.jobs:
            job = self.jobs[found.id]
            assert job.status == JobStatus.PENDING
            assert not self.is_open
            assert job.expires is None or job.expires > self.now
            assert found.attempt == job.attempt + 1 <= job.max_attempts
            assert (found.claims, found.losses) == (job.claims + 1, job.losses)
            MACHINE.met["a second claim of a job"] += job.claims > 0
            job.status, job.attempt, job.claims = JobStatus.RUNNING, found.attempt, found.claims
            job.token, job.worker, job.lease = found.fence_token, worker, self.now + LEASE
            self.claims.append((found.id, found.fence_token, worker))
        for job_id, held in self.rows("blocked").items():
            job = self.jobs[job_id]
            assert held == "bank"
            if job.status == JobStatus.PENDING:
                assert self.is_open
                MACHINE.met["an open breaker holds a job"] += 1
                job.status = JobStatus.BLOCKED

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), who=st.sampled_from(["an owner", "an owner", "a zombie", "anybody"]))
    def speak(self, data, who):
        """Somebody who was granted a claim once says how it ended."""
        self.tick()
        running = [claim for claim in self.claims if self.jobs[claim[0]].status == "running"]
        owners = [claim for claim in running if self.jobs[claim[0]].token == claim[1]]
        zombies = [claim for claim in running if claim not in owners]
        claims = {"an owner": owners, "a zombie": zombies}.get(who) or self.claims
        job_id, token, worker = data.draw(st.sampled_from(claims))
        act = data.draw(st.sampled_from(ACTS))
        job = self.jobs[job_id]
        is_owner = job.status == JobStatus.RUNNING and (job.token, job.worker) == (token, worker)
        MACHINE.met[
            "the owner speaks"
            if is_owner
            else "a stale claim speaks while another runs the job"
            if job.status == JobStatus.RUNNING
            else "a stale claim speaks while nobody does"
        ] += 1
        if act == "renew":
            self.renew(job_id, token, worker, job if is_owner else None)
        elif act == "complete":
            done = complete_jobs(
                self.connection, [Success(job_id, token, None)], worker_id=worker, now=self.now
            )
            assert bool(done) == is_owner
            if is_owner:
                MACHINE.met["a cancelled job's attempt ends"] += job.is_asked
                self.end(job, JobStatus.CANCELLED if job.is_asked else JobStatus.COMPLETED)
                assert done == {job_id: job.status}
        else:
            self.give_up(act, job_id, token, worker, job if is_owner else None)

    def renew(self, job_id, token, worker, job):
        (renewal,) = renew_leases(
            self.connection, [(job_id, token)], worker_id=worker, lease=LEASE, now=self.now
        )
        assert renewal.is_owned == (job is not None)
        if job is not None:
            assert renewal.cancel_requested == job.is_asked
            job.lease = max(job.lease, self.now + LEASE)

    def give_up(self, act, job_id, token, worker, job):
        outcome = {
            "fail": Outcome.FAILED,
            "refuse": Outcome.FAILED,
            "snooze": Outcome.SNOOZED,
            "release": Outcome.RELEASED,
            "cancel": Outcome.CANCELLED,
        }[act]
        ending = Ending(
            id=job_id,
            fence_token=token,
            outcome=outcome,
            is_retryable=act != "refuse",
            delay=3 * SECOND,
        )

        ended = end_attempts(self.connection, [ending], worker_id=worker, now=self.now, **BACKOFF)

        assert bool(ended) == (job is not None)
        if job is None:
            return
        if job.is_asked or act == "cancel":
            MACHINE.met["a cancelled job's attempt ends"] += 1
            status = JobStatus.CANCELLED
        elif act in {"snooze", "release"}:
            status = JobStatus.RETRYABLE
            job.attempt -= 1
        elif act == "refuse" or job.attempt >= job.max_attempts:
            MACHINE.met["a job is dead by failing"] += 1
            status = JobStatus.DEAD
        else:
            status = JobStatus.FAILED
        assert ended[0].status == status
        self.end(job, status)
        job.losses, job.due = 0, self.now + 3 * SECOND

    # Maintenance

    @rule(seconds=st.sampled_from([1, 7, 61]))
    def wait(self, seconds):
        self.tick(timedelta(seconds=seconds))

    @rule()
    def reap(self):
        self.tick()
        expired = {i for i in self.running() if self.jobs[i].lease < self.now}
        before = {i: self.jobs[i].worker for i in self.running()}
        lost_before = {
            worker
            for (worker,) in self.connection.execute(
                "SELECT DISTINCT worker_id FROM job_attempts WHERE outcome = 'lost'"
            )
        }

        reaped = reap_leases(self.connection, limit=100, now=self.now, **BACKOFF)

        assert {row.id for row in reaped} == expired
        for row in reaped:
            job = self.jobs[row.id]
            worker = before[row.id]
            in_company = (
                worker in lost_before or list(before.values()).count(worker) > 1
            ) and job.max_attempts > 1
            status = self.fate(job, in_company=in_company)
            assert row.status == status
            self.end(job, status)
            if status == JobStatus.FAILED:
                MACHINE.met["a job is reaped and goes on"] += 1
                job.attempt -= in_company
                job.losses += 1
                job.due = self.due(row.id)

    def fate(self, job, *, in_company):
        if job.is_asked:
            return JobStatus.CANCELLED
        if job.losses >= 2:
            MACHINE.met["a suspect is buried"] += 1
            return JobStatus.DEAD
        if not in_company and job.attempt >= job.max_attempts:
            MACHINE.met["an exhausted job is reaped"] += 1
            return JobStatus.DEAD
        return JobStatus.FAILED

    @rule()
    def stage(self):
        self.tick()

        stage_jobs(self.connection, limit=100, now=self.now)

        for job in self.jobs.values():
            if job.status in {"scheduled", "failed", "retryable"} and job.due <= self.now:
                job.status = JobStatus.PENDING

    @rule(data=st.data(), worker=WORKERS, other=WORKERS)
    def zombie(self, data, worker, other):
        """A worker is thought dead, and its jobs run elsewhere while it still speaks."""
        self.turn_breaker(is_open=False)
        if not self.running():
            self.enqueue(3, key=None, delay=0, ttl=None)
        self.claim(worker, 5)
        self.wait(61)
        self.reap()
        self.wait(61)
        self.stage()
        self.claim(other, 5)
        if self.claims:
            self.speak(data, "a zombie")

    @rule()
    def expire(self):
        self.tick()
        waiting = {i for i, job in self.jobs.items() if job.status not in {*FINAL, "running"}}
        due = {i for i in waiting if self.jobs[i].expires and self.jobs[i].expires <= self.now}

        expired = expire_jobs(self.connection, limit=100, now=self.now)

        assert set(expired) == due
        for job_id in expired:
            MACHINE.met["a job expires"] += 1
            self.end(self.jobs[job_id], JobStatus.CANCELLED)

    @rule(is_open=st.sampled_from([True, True, False]))
    def turn_breaker(self, is_open):
        """Open or close the breaker; a closed one lets its jobs go."""
        self.is_open = is_open
        state = "open" if is_open else "closed"
        self.connection.execute("UPDATE breakers SET state = %s", [state])
        if not is_open:
            from django_pgjobs.store.breakers import release_held_jobs

            release_held_jobs(self.connection, breaker="bank", limit=1000)
            for job in self.jobs.values():
                if job.status == JobStatus.BLOCKED:
                    job.status = JobStatus.PENDING

    # Operators

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), of_running=st.booleans())
    def cancel(self, data, of_running):
        self.tick()
        running = self.running()
        ids = running if of_running and running else sorted(self.jobs)
        self.cancel_one(data.draw(st.sampled_from(ids)))

    def cancel_one(self, job_id):
        job = self.jobs[job_id]

        answer = cancel_jobs(self.connection, [job_id], reason="")

        if job.status in FINAL:
            assert answer == []
        elif job.status == JobStatus.RUNNING:
            assert [row.status for row in answer] == ["running"]
            MACHINE.met["a running job is asked to stop"] += 1
            job.is_asked = True
        else:
            assert [row.status for row in answer] == ["cancelled"]
            self.end(job, JobStatus.CANCELLED)

    @precondition(lambda self: any(job.status in FINAL for job in self.jobs.values()))
    @rule(data=st.data())
    def redrive(self, data):
        finished = sorted(i for i, job in self.jobs.items() if job.status in FINAL)
        self.redrive_one(data.draw(st.sampled_from(finished)))

    @rule()
    def twins(self):
        """A job fails for good, its key is taken by another, and somebody redrives it."""
        self.enqueue(1, key="k", delay=0, ttl=None)
        (first,) = [i for i, j in self.jobs.items() if j.key == "k" and j.status not in FINAL]
        self.cancel_one(first)
        if self.jobs[first].status in FINAL:
            self.enqueue(2, key="k", delay=0, ttl=None)
            self.redrive_one(first)

    def redrive_one(self, job_id):
        self.tick()
        job = self.jobs[job_id]
        is_taken = job.key and any(
            other.key == job.key and other.status not in FINAL for other in self.jobs.values()
        )
        pill = "SELECT error_class LIKE '%%PoisonPill' FROM jobs_completed WHERE id = %s"
        (is_pill,) = self.connection.execute(pill, [job_id]).fetchone()

        answer = [row.is_redriven for row in redrive_jobs(self.connection, [job_id])]

        if job.status == JobStatus.COMPLETED:
            assert answer == []
        elif is_taken:
            assert answer == [False]
            MACHINE.met["a redrive conflicts"] += 1
        else:
            assert answer == [True]
            MACHINE.met["a job is redriven"] += 1
            job.status, job.attempt, job.expires = JobStatus.PENDING, 0, None
            job.losses = 2 if is_pill else 0

    # What must be true

    def rows(self, status):
        query = "SELECT id, held_by FROM jobs_active WHERE status = %s"
        return dict(self.connection.execute(query, [status]).fetchall())

    def due(self, job_id):
        query = "SELECT scheduled_at FROM jobs_active WHERE id = %s"
        return self.connection.execute(query, [job_id]).fetchone()[0]

    @invariant()
    def the_tables_agree_with_the_model(self):
        if not hasattr(self, "jobs"):
            return
        query = """
            SELECT id, status::text, attempt, claims FROM jobs_active
            UNION ALL SELECT id, status::text, attempt, claims FROM jobs_completed
        """
        found = {row[0]: tuple(row[1:]) for row in self.connection.execute(query)}
        assert found == {
            job_id: (job.status.value, job.attempt, job.claims)
            for job_id, job in self.jobs.items()
        }

    def teardown(self):
        if hasattr(self, "jobs"):
            # The model's clock runs ahead of the server's, which some statements read.
            assert check_invariants(self.connection, clock=False) == []


def explore(connection, examples, phases):
    """Run so many sequences, always the same unless PGJOBS_EXAMPLES is set."""
    MACHINE.connection, MACHINE.met = connection, Counter()
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            derandomize="PGJOBS_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
            phases=phases,
            print_blob=False,
        ),
    )


def test_random_sequences_keep_every_promise_and_meet_what_matters(connection):
    """PGJOBS_EXAMPLES=2000 for a night."""
    examples = int(os.environ.get("PGJOBS_EXAMPLES", "100"))

    explore(connection, examples, [Phase.generate, Phase.shrink])

    scarce = {event: MACHINE.met[event] for event in FLOORS if MACHINE.met[event] < FLOORS[event]}
    assert scarce == {}, MACHINE.met


@pytest.mark.parametrize(
    "name",
    [
        "complete without the token",
        "end without the token",
        "reap a suspect like any other",
        "charge the neighbours of a killer",
        "claim through an open breaker",
    ],
)
def test_random_sequences_notice_a_guard_that_is_gone(connection, name):
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]

    with (
        replaced_statements(lambda name: mutated(name, mutant.changes.get(name, []))),
        pytest.raises(AssertionError),
    ):
        explore(connection, 100, [Phase.generate])
