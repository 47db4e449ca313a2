"""What django-pgjobs raises.

::

    PgJobsError                        do not raise directly
    ├── DeclarationError               while jobs.py files are imported
    │   ├── DuplicateJobName
    │   ├── InvalidHandler
    │   └── InvalidSchedule
    ├── EnqueueError                   in the producer; nothing was written
    │   ├── UnknownJob
    │   ├── InvalidOption
    │   ├── InvalidPayload
    │   └── PayloadTooLarge
    ├── AttemptError                   inside a worker
    │   ├── LeaseLost
    │   ├── ProcessDied
    │   ├── PoisonPill
    │   ├── UndecodablePayload
    │   └── JobTimeout
    └── OperationError                 to an administrator
        ├── PermissionRequired
        ├── JobNotFound
        └── ScheduleNotFound

Mistakes in settings are Django's ``ImproperlyConfigured``.
"""

from __future__ import annotations

import copyreg
from typing import Any


class PgJobsError(Exception):
    """Base of every error of django-pgjobs. Do not raise directly."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own would call the class again, without its keyword arguments.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class DeclarationError(PgJobsError):
    """A job was declared wrongly. Raised while ``jobs.py`` files are imported."""


class DuplicateJobName(DeclarationError):
    """Two functions were declared under one job name."""


class InvalidHandler(DeclarationError):
    """A function cannot be a handler, or an option of ``@job`` makes no sense."""


class InvalidSchedule(DeclarationError):
    """A schedule makes no sense: its expression, its zone, an option or its arguments."""


class EnqueueError(PgJobsError):
    """A job was not enqueued. Nothing was written; the caller's transaction is usable."""


class UnknownJob(EnqueueError):
    """No job of that name is registered in this process."""


class InvalidOption(EnqueueError):
    """An option of ``using`` does not exist or its value makes no sense."""


class InvalidPayload(EnqueueError):
    """The arguments do not fit the handler, or cannot be stored exactly.

    Attributes:
        argument: path of the offending value, such as ``order["lines"][3]``, or None.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class PayloadTooLarge(InvalidPayload):
    """The encoded arguments exceed the limit.

    Attributes:
        size: bytes of the encoded arguments.
        limit: bytes allowed.
    """

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class AttemptError(PgJobsError):
    """Something about one attempt went wrong inside a worker."""


class LeaseLost(AttemptError):
    """The lease of this attempt was lost: its outcome was refused.

    Attributes:
        job_id: the job.
        fence_token: the token that is no longer valid.
    """

    def __init__(self, message: str, *, job_id: int, fence_token: int) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.fence_token = fence_token


class ProcessDied(AttemptError):
    """The process that ran the attempt, in the pool of processes, died in the middle of it.

    Never raised: recorded as the error of the attempt.

    Attributes:
        exit_code: of the process; of a signal, its number below zero.
    """

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class PoisonPill(AttemptError):
    """The job was in flight in three lost processes, the last time alone. Recorded, not raised."""


class UndecodablePayload(AttemptError):
    """The stored payload cannot be turned back into arguments."""


class JobTimeout(AttemptError):
    """The attempt ran longer than the job's ``timeout``. Raised inside the handler."""

    def __init__(self, message: str = "The attempt ran longer than its timeout.") -> None:
        super().__init__(message)


class OperationError(PgJobsError):
    """An administrator's action was refused. Nothing was changed."""


class PermissionRequired(OperationError):
    """The user lacks the permission of the action.

    Attributes:
        permission: the missing permission, such as ``django_pgjobs.cancel_job``.
    """

    def __init__(self, message: str, *, permission: str) -> None:
        super().__init__(message)
        self.permission = permission


class JobNotFound(OperationError):
    """There is no such job, or it is not in a state the action applies to."""


class ScheduleNotFound(OperationError):
    """There is no such schedule."""
