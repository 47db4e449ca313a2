"""Tenants get their shares, and nothing lies idle while anybody has work."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from threading import Barrier

import pytest

from django_pgjobs.store.claim import stage_jobs
from django_pgjobs.store.enqueue import NewJob, enqueue_job
from tests import factories
from tests.worker.claims import claimer, configure, fill, finish


def jain(values) -> float:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything.

    See Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984.
    """
    values = list(values)
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def test_a_thousand_tenants_with_unequal_backlogs_get_equal_shares(connection):
    random = Random(7)
    for tenant in range(1000):
        fill(connection, tenant * 3, random.randint(12, 200))
    claims, served = claimer(), Counter()

    # Ten for each: all of them have work all the time.
    while served.total() < 10_000:
        jobs = claims.claim(connection, 100)
        served.update(job.tenant_id for job in jobs)
        finish(connection, jobs)

    assert len(served) == 1000
    assert jain(served.values()) >= 0.99


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_shares_follow_the_weights(connection, limit):
    weights = {1: 1, 2: 5, 3: 20}
    for tenant, weight in weights.items():
        configure(connection, tenant, weight=weight)
        fill(connection, tenant, 1200)
    claims, served = claimer(), Counter()

    while served.total() < 1040:
        jobs = claims.claim(connection, limit)
        served.update(job.tenant_id for job in jobs)
        finish(connection, jobs)

    for tenant, weight in weights.items():
        share = served[tenant] / served.total()
        assert share == pytest.approx(weight / 26, rel=0.05)


def test_each_step_of_priority_boost_doubles_the_share(connection):
    for tenant, boost in {1: -1, 2: 0, 3: 1}.items():
        configure(connection, tenant, boost=boost)
        fill(connection, tenant, 100)

    served = Counter(job.tenant_id for job in claimer().claim(connection, 70))

    assert served == {1: 10, 2: 20, 3: 40}


@pytest.mark.parametrize(
    ("limit", "half", "jobs"), [(1, 32, 1000), (8, 32, 4000), (100, 100, 4000)]
)
def test_shares_follow_the_weights_of_tenants_that_no_claim_sees_together(
    connection, limit, half, jobs
):
    """The walk of a claim sees 16 tenants, or 50: here all heavy ones, or all light ones."""
    for tenant in range(2 * half):
        configure(connection, tenant, weight=20 if tenant < half else 5)
        fill(connection, tenant, 300)
    claims, served = claimer(), Counter()

    while served.total() < jobs:
        claimed = claims.claim(connection, limit)
        served.update(job.tenant_id < half for job in claimed)
        finish(connection, claimed)

    assert served[True] / served.total() == pytest.approx(0.8, rel=0.05)


def test_slots_follow_the_weights_when_jobs_take_long(connection):
    """Shares are of what runs: a tenant of slow jobs does not fill all slots."""
    configure(connection, 1, weight=10)
    configure(connection, 2, weight=30)
    fill(connection, 1, 2000)
    fill(connection, 2, 2000)
    claims = claimer()
    running = claims.claim(connection, 80)

    # Jobs of tenant 2 are ten times as fast as those of tenant 1.
    random = Random(3)
    for _ in range(50):
        ended = [job for job in running if random.random() < (0.5 if job.tenant_id == 2 else 0.05)]
        finish(connection, ended)
        running = [job for job in running if job not in ended]
        running += claims.claim(connection, 80 - len(running)) if ended else []

    slots = Counter(job.tenant_id for job in running)
    assert slots[1] == pytest.approx(20, abs=3)
    assert slots[2] == pytest.approx(60, abs=3)


def test_a_tenant_of_ten_thousand_jobs_does_not_delay_a_tenant_of_ten(connection):
    fill(connection, 1, 10_000)
    fill(connection, 2, 10)
    claims, served = claimer(), Counter()

    while served[2] < 10:
        jobs = claims.claim(connection, 10)
        served.update(job.tenant_id for job in jobs)
        finish(connection, jobs)

    assert served[1] < 1000


def test_when_one_tenant_has_nothing_the_other_gets_everything(connection):
    configure(connection, 1, weight=1)
    configure(connection, 2, weight=1000)
    fill(connection, 1, 500)
    claims = claimer()

    assert [len(claims.claim(connection, 100)) for _ in range(5)] == [100] * 5


def test_a_tenant_without_a_row_is_served_with_the_default_weight(connection):
    configure(connection, 1, weight=10)
    fill(connection, 1, 1000)
    fill(connection, 2, 1000)

    served = Counter(job.tenant_id for job in claimer().claim(connection, 100))

    assert served == {1: 50, 2: 50}


def test_every_tenant_gets_its_turn_when_there_are_more_than_one_claim_walks(connection):
    for tenant in range(300):
        fill(connection, tenant, 1)
    claims, seen = claimer(), set()

    for _ in range(31):
        seen |= {job.tenant_id for job in claims.claim(connection, 10)}

    assert len(seen) == 300


@pytest.mark.parametrize("others", [2, 40])
@pytest.mark.parametrize("obstacle", ["an expired job", "a locked row"])
def test_a_heavy_tenant_of_whom_nothing_can_be_taken_holds_up_nobody(connect, obstacle, others):
    connection, other = connect(), connect()
    configure(connection, 1, weight=1000, boost=10)
    fill(connection, 1, 1)
    for tenant in range(2, others + 2):
        fill(connection, tenant, 20)
    if obstacle == "an expired job":
        connection.execute("UPDATE jobs_active SET expires_at = created_at WHERE tenant_id = 1")
    claims, served = claimer(), Counter()

    with other.transaction():
        if obstacle == "a locked row":
            other.execute("SELECT FROM jobs_active WHERE tenant_id = 1 FOR UPDATE")
        for _ in range(20):
            jobs = claims.claim(connection, 1)
            served.update(job.tenant_id for job in jobs)
            finish(connection, jobs)

    assert served.total() == 20
    assert max(served.values()) <= 10


def test_a_mean_that_no_longer_holds_lets_no_claim_come_back_empty(connection):
    for tenant in range(1000):
        fill(connection, tenant, 1)
    claims = claimer()
    claims.claim(connection, 1)
    claims.walks["default"].mean_weight = 1_000_000.0
    claims.walks["default"].has_come_round = True

    assert [len(claims.claim(connection, 1)) for _ in range(3)] == [1, 1, 1]


def test_a_heavy_tenant_at_its_cap_does_not_make_claims_small(connection):
    configure(connection, 1, weight=1000, boost=10, cap=0)
    fill(connection, 1, 1)
    for tenant in range(2, 42):
        fill(connection, tenant, 10)
    claims, taken = claimer(), []

    for _ in range(30):
        jobs = claims.claim(connection, 8)
        taken.append(len(jobs))
        finish(connection, jobs)

    assert taken == [8] * 30


def test_shares_are_right_at_the_ends_of_the_number_range(connection):
    heavy = {-(2**63), 2**63 - 1}
    for tenant in heavy:
        configure(connection, tenant, weight=100)
        fill(connection, tenant, 800)
    for tenant in range(20):
        fill(connection, tenant, 200)
    claims, served = claimer(), Counter()

    while served.total() < 1600:
        jobs = claims.claim(connection, 8)
        served.update(job.tenant_id in heavy for job in jobs)
        finish(connection, jobs)

    assert served[True] / served.total() == pytest.approx(0.5, rel=0.05)


def test_a_new_tenant_is_noticed_while_another_is_served_alone(connection):
    fill(connection, 1, 1000)
    claims = claimer()
    for _ in range(3):
        claims.claim(connection, 10)
    assert claims.walks["default"].sole_tenant == 1

    fill(connection, 2, 10)
    jobs = [job for _ in range(3) for job in claims.claim(connection, 10)]

    assert 2 in {job.tenant_id for job in jobs}


def test_priority_orders_the_jobs_of_one_tenant(connection):
    connection.execute(
        """
        INSERT INTO jobs_active
            (epoch, tenant_id, created_at, scheduled_at, status, job_name, priority)
        SELECT 1, 1, now(), clock_timestamp(), 'pending', 'tests.noop', number %% 3
        FROM generate_series(1, 30) AS number
        """,
        [],
    )
    claims = claimer()

    priorities = [job.priority for _ in range(6) for job in claims.claim(connection, 5)]

    assert priorities == [2] * 10 + [1] * 10 + [0] * 10


def test_jobs_of_equal_priority_start_in_the_order_of_their_enqueue(connection):
    fill(connection, 1, 50)
    claims = claimer()

    ids = [job.id for _ in range(10) for job in claims.claim(connection, 5)]

    assert ids == sorted(ids)


def test_weighted_queues_share_the_claims(connection):
    for queue in ("critical", "standard", "bulk"):
        fill(connection, 0, 1000, queue=queue)
    claims, served = claimer(critical=5, standard=3, bulk=2), Counter()

    while served.total() < 1000:
        jobs = claims.claim(connection, 10)
        served.update(job.queue_name for job in jobs)
        finish(connection, jobs)

    assert served == {"critical": 500, "standard": 300, "bulk": 200}


def test_a_paused_queue_is_passed_over_and_comes_back(connection):
    fill(connection, 0, 100, queue="a")
    fill(connection, 0, 100, queue="b")
    connection.execute("INSERT INTO queue_config VALUES ('a', true, now(), 'me')")
    claims = claimer(a=1, b=1)

    assert {job.queue_name for job in claims.claim(connection, 10)} == {"b"}
    assert {job.queue_name for job in claims.claim(connection, 10)} == {"b"}
    connection.execute("UPDATE queue_config SET paused = false, paused_at = NULL")

    # Not at once: it was empty a moment ago.
    queues = Counter(job.queue_name for _ in range(18) for job in claims.claim(connection, 10))
    assert queues == {"a": 100, "b": 80}


def test_two_workers_share_a_queue_by_their_free_slots(connect, background):
    """Each claim is full, also while the other claims: nobody finds what the other has taken."""
    setup = connect()
    for tenant in range(5):
        fill(setup, tenant, 1000)
    start = Barrier(2)

    def work(name: str, limit: int) -> list[int]:
        connection, claims, sizes = connect(), claimer(name), []
        start.wait(20)
        for _ in range(100):
            jobs = claims.claim(connection, limit)
            finish(connection, jobs, name)
            sizes.append(len(jobs))
        return sizes

    big, small = background(work, "big", 10), background(work, "small", 5)

    assert big.result(60) == [10] * 100
    assert small.result(60) == [5] * 100


def enqueue_aged(connection, *, priority: int, minutes: int) -> int:
    """Enqueue a job that has been due for some minutes; return its id."""
    job = NewJob(
        job_name="tests.noop",
        queue="default",
        tenant_id=1,
        priority=priority,
        payload="{}",
        payload_version=1,
        max_attempts=3,
        scheduled_at=factories.server_now() - timedelta(minutes=minutes),
    )
    return enqueue_job(connection, job)


def test_where_priorities_age_a_job_that_has_waited_long_overtakes(connection):
    connection.execute(
        "INSERT INTO queue_config (queue_name, priority_aging) VALUES (%s, '1 min')", ["default"]
    )
    urgent = enqueue_aged(connection, priority=3, minutes=0)
    old = enqueue_aged(connection, priority=0, minutes=4)
    young = enqueue_aged(connection, priority=0, minutes=2)

    ids = [job.id for job in claimer().claim(connection, 3)]

    assert ids == [old, urgent, young]


def test_elsewhere_priorities_are_strict(connection):
    urgent = enqueue_aged(connection, priority=1, minutes=0)
    old = enqueue_aged(connection, priority=0, minutes=60 * 24 * 365)

    ids = [job.id for job in claimer().claim(connection, 3)]

    assert ids == [urgent, old]


def test_a_job_of_the_lowest_priority_is_served_under_a_steady_stream_of_higher_ones(connection):
    connection.execute(
        "INSERT INTO queue_config (queue_name, priority_aging) VALUES (%s, '1 s')", ["default"]
    )
    low = enqueue_aged(connection, priority=-100, minutes=2)
    claims = claimer()

    for _ in range(3):
        enqueue_aged(connection, priority=10, minutes=0)
        jobs = claims.claim(connection, 1)
        if jobs[0].id == low:
            return
    pytest.fail("The job starves.")


def test_a_job_that_backs_off_holds_up_nobody(connection):
    factories.failed_job(tenant_id=1, due_in=timedelta(hours=1))
    fill(connection, 1, 3)
    fill(connection, 2, 3)

    served = Counter(job.tenant_id for job in claimer().claim(connection, 10))

    assert served == {1: 3, 2: 3}


def test_a_recovered_job_keeps_its_priority_among_fresh_ones(connection):
    lost = factories.failed_job(tenant_id=1, due_in=timedelta(seconds=-1), priority=5)
    fill(connection, 1, 10)
    stage_jobs(connection, limit=10)

    assert claimer().claim(connection, 1)[0].id == lost.id
