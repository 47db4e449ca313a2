"""Record a success in the handler's own transaction.

What the handler has done in the database and the record that it has done so commit together
or not at all: exactly once for effects in that database. A worker that dies before the commit
leaves nothing; one that dies after it leaves a finished job. When the answer to the commit is
lost, resolve_attempts finds the success on record (worker/finishing.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError, connections, transaction

from ..exceptions import LeaseLost
from ..outcomes import Cancel
from ..states import JobStatus
from ..store.execute import FenceToken, JobId, WorkerId
from ..store.finish import Success, complete_jobs

#: Tries to record while maintenance attaches the partition of the day.
_TRIES: Final = 5

#: SQLSTATE of a row that belongs to a partition that was attached just now.
_CHECK_VIOLATION: Final = "23514"


@dataclass(frozen=True, slots=True)
class Recorded:
    """An attempt whose success is on record: nothing is left to be written."""

    id: JobId
    fence_token: FenceToken


def record_success(success: Success, *, alias: str, worker_id: WorkerId) -> None:
    """Record a success in the transaction that is open on ``alias``.

    Raises:
        LeaseLost: the attempt is not this worker's any more. The transaction must be
            rolled back: somebody else runs the job, or has run it.
        Cancel: somebody has asked to cancel the job. The transaction must be rolled back: a
            cancelled job has no effect, and may be redriven.
    """
    written: dict[JobId, str] = {}
    for tries in range(1, _TRIES + 1):
        try:
            with transaction.atomic(using=alias):
                written = complete_jobs(connections[alias], [success], worker_id=worker_id)
            break
        except IntegrityError as error:
            if getattr(error.__cause__, "sqlstate", None) != _CHECK_VIOLATION or tries == _TRIES:
                raise
    if not written:
        raise LeaseLost(
            f"The lease of job {success.id} was lost before its transaction could commit. What "
            "the handler did in it has been rolled back.",
            job_id=success.id,
            fence_token=success.fence_token,
        )
    if written[success.id] != JobStatus.COMPLETED:
        raise Cancel("It was cancelled before its transaction could commit.")
