"""What django-pgjobs tells the project. Sent in worker and maintenance processes.

A receiver that raises is logged and does no harm to the job.

``job_started(sender, context)``
    An attempt begins. ``sender`` is the definition.
``job_finished(sender, context, outcome, error, duration)``
    An attempt's handler has ended. ``outcome`` is an ``Outcome``, ``error`` the exception
    or None, ``duration`` seconds.
``lease_lost(sender, job_id, fence_token)``
    A worker was told that an attempt of its is not its any more.
``maintenance_ran(sender, service, report)``
    A maintenance service has done a step. ``report`` is its Report.
"""

from __future__ import annotations

from django.dispatch import Signal

job_started = Signal()
job_finished = Signal()
lease_lost = Signal()
maintenance_ran = Signal()
