"""A tenant's cap is never exceeded, whoever claims."""

from __future__ import annotations

import threading
from random import Random

import pytest

from tests.invariants import check_invariants
from tests.worker.claims import claimer, configure, fill, finish


def running_of(connection, tenant: int) -> int:
    query = "SELECT count(*) FROM jobs_active WHERE tenant_id = %s AND status = 'running'"
    return connection.execute(query, [tenant]).fetchone()[0]


def test_a_cap_holds_and_the_rest_waits(connection):
    configure(connection, 1, cap=3)
    fill(connection, 1, 10)
    claims = claimer()

    jobs = claims.claim(connection, 10)

    assert len(jobs) == 3
    assert claims.claim(connection, 10) == []
    finish(connection, jobs[:2])
    assert len(claims.claim(connection, 10)) == 2


def test_a_cap_counts_all_queues(connection):
    configure(connection, 1, cap=3)
    fill(connection, 1, 10, queue="a")
    fill(connection, 1, 10, queue="b")
    claims = claimer(a=1, b=1)

    jobs = [job for _ in range(4) for job in claims.claim(connection, 2)]

    assert len(jobs) == 3


def test_a_cap_of_zero_lets_nothing_start(connection):
    configure(connection, 1, cap=0)
    fill(connection, 1, 10)

    assert claimer().claim(connection, 10) == []


def test_a_saturated_tenant_holds_up_nobody(connection):
    configure(connection, 1, cap=1)
    fill(connection, 1, 5000)
    claims = claimer()
    claims.claim(connection, 1)
    fill(connection, 2, 1)

    assert [job.tenant_id for job in claims.claim(connection, 10)] == [2]


def test_more_saturated_tenants_than_a_claim_walks_hold_up_nobody(connection):
    for tenant in range(50):
        configure(connection, tenant, cap=0)
        fill(connection, tenant, 5)
    fill(connection, 1000, 1)

    assert [job.tenant_id for job in claimer().claim(connection, 10)] == [1000]


def test_a_queue_of_saturated_tenants_is_walked_round_once(connection):
    for tenant in range(60):
        configure(connection, tenant, cap=0)
        fill(connection, tenant, 1)
    claims = claimer()
    assert claims.claim(connection, 1) == []
    before = claims.walks["default"].after_tenant

    assert claims.claim(connection, 1) == []

    # A claim of one job walks over 16 tenants: four of them go round.
    assert (claims.walks["default"].after_tenant - before) % 60 == 4 * 16 % 60


def test_hitting_a_cap_leaves_no_trace_on_the_jobs(connection):
    configure(connection, 1, cap=0)
    fill(connection, 1, 3)
    claims = claimer()

    for _ in range(1000):
        assert claims.claim(connection, 10) == []

    query = "SELECT sum(attempt), sum(claims) FROM jobs_active"
    assert connection.execute(query).fetchone() == (0, 0)
    assert connection.execute("SELECT count(*) FROM job_attempts").fetchone() == (0,)


def test_a_lower_cap_takes_effect_at_the_next_claim(connection):
    configure(connection, 1, cap=5)
    fill(connection, 1, 20)
    claims = claimer()
    jobs = claims.claim(connection, 10)

    configure(connection, 1, cap=2)
    finish(connection, jobs[:3])

    assert claims.claim(connection, 10) == []
    finish(connection, jobs[3:4])
    assert len(claims.claim(connection, 10)) == 1


def test_a_cap_set_while_a_tenant_is_served_alone_takes_effect_at_the_next_claim(connection):
    fill(connection, 1, 50)
    claims = claimer()
    for _ in range(3):
        claims.claim(connection, 5)
    assert claims.walks["default"].sole_tenant == 1

    configure(connection, 1, cap=15)

    assert claims.claim(connection, 5) == []
    configure(connection, 1, cap=17)
    assert len(claims.claim(connection, 5)) == 2


def test_a_cap_taken_away_takes_effect_at_the_next_claim(connection):
    configure(connection, 1, cap=1)
    fill(connection, 1, 50)
    claims = claimer()
    claims.claim(connection, 10)

    configure(connection, 1, cap=None)

    assert len(claims.claim(connection, 10)) == 10


@pytest.mark.parametrize("seed", range(6))
def test_four_claimers_never_exceed_random_caps(connect, seed):
    """Checked for every instant, from the recorded start and end of every attempt."""
    random = Random(seed)
    setup = connect()
    for tenant in range(5):
        configure(setup, tenant, weight=random.randint(1, 20), cap=random.choice([1, 2, 3, None]))
        fill(setup, tenant, 120)
    start, failures = threading.Barrier(4), []

    def work(number: int) -> None:
        try:
            name = f"worker-{number}"
            connection, own = connect(), Random(seed * 10 + number)
            claims, held = claimer(name, seed=seed * 10 + number), []
            start.wait(20)
            for _ in range(60):
                held += claims.claim(connection, own.randint(1, 6))
                own.shuffle(held)
                keep = own.randint(0, len(held))
                finish(connection, held[keep:], name)
                held = held[:keep]
            finish(connection, held, name)
        except Exception as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == []
    assert check_invariants(setup) == []
    assert setup.execute("SELECT count(*) FROM jobs_completed").fetchone()[0] > 100
