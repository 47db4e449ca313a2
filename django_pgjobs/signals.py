"""What django-pgjobs tells the project. Sent in worker and maintenance processes.

A receiver that raises is logged and does no harm to the job. It is called where the handler runs,
except that for a handler in an event loop a receiver defined with ``def`` is called in a thread.

``job_started(sender, context)``
    An attempt begins. ``sender`` is the definition.
``job_finished(sender, context, outcome, error, duration)``
    An attempt's handler has ended. ``outcome`` is an ``Outcome``, ``error`` the exception
    or None, ``duration`` seconds. Of a handler in a process it is sent there, as the others are;
    by the worker if the process has died, with ``ProcessDied`` or ``JobTimeout``.
``job_failed(sender, context, outcome, error, duration, will_retry)``
    An attempt has failed or timed out: for error reporters. Sent as ``job_finished`` is, in the
    same thread. ``will_retry`` is False when the job will be dead.
``attempt_lost(sender, attempt)``
    Maintenance has ended an attempt whose worker is gone. ``attempt`` has ``id``, ``job_name``,
    ``queue_name``, ``worker_id``, ``attempt`` and ``status``, the job's new one: ``dead`` if that
    was its last attempt.
``lease_lost(sender, job_id, fence_token)``
    A worker was told that an attempt of its is not its any more.
``maintenance_ran(sender, service, report)``
    A maintenance service has done a step. ``report`` is its Report.
``schedule_late(sender, schedule)``
    A schedule has not fired within a minute of its slot, or cannot be fired. ``schedule`` is a
    LateSchedule: ``name``, ``tenant_id``, ``due_at``, ``late_by`` and ``problem``. Sent once for a
    slot in each maintenance process.
"""

from __future__ import annotations

from django.dispatch import Signal

job_started = Signal()
job_finished = Signal()
job_failed = Signal()
attempt_lost = Signal()
lease_lost = Signal()
maintenance_ran = Signal()
schedule_late = Signal()
