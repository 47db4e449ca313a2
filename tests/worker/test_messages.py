"""What a worker and its processes say to each other arrives as it was said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgjobs.states import Outcome
from django_pgjobs.store.claim import ClaimedJob
from django_pgjobs.store.finish import Ending, Success
from django_pgjobs.worker.pools.messages import Done, Ready, decode, encode
from django_pgjobs.worker.recording import Recorded

JOB = ClaimedJob(
    id=7,
    job_name="tests.job",
    tenant_id=3,
    queue_name="default",
    priority=-1,
    claim_order=2**40,
    fence_token=2**62,
    attempt=1,
    max_attempts=3,
    claims=2,
    payload='{"text": "\\u0000 \\ud800 é"}',
    payload_version=1,
    meta=None,
)
ENDING = Ending(
    id=7,
    fence_token=99,
    outcome=Outcome.FAILED,
    is_retryable=False,
    delay=timedelta(days=36_525, microseconds=1),
    backoff_base=timedelta(0),
    error_class="builtins.ValueError",
    error_message="lone \ud800 and\nline",
    traceback="Traceback",
    fingerprint="f",
)


@pytest.mark.parametrize(
    "message",
    [
        JOB,
        Ready(),
        Done(Success(7, 99, None), 1),
        Done(Success(7, 99, '{"$": "Ending"}'), 2**40),
        Done(Recorded(7, 99), 1),
        Done(ENDING, 1),
    ],
)
def test_a_message_survives_the_way(message):
    assert decode(encode(message)) == message


def test_an_outcome_is_one_again():
    assert decode(encode(Done(ENDING, 1))).outcome.outcome is Outcome.FAILED
