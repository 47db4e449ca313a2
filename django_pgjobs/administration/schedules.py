"""What an operator, or a project's code, may do to schedules.

An ``actor`` is a user of Django, whose permission is required; None stands for code that runs with
the project's own rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings as django_settings
from django.db import connections, models, transaction
from django.db.models.functions import Now

from ..conf import get_settings
from ..definitions.registry import registry
from ..definitions.schedules import ScheduleOptions, declared
from ..definitions.slots import Defaults, firing_of
from ..exceptions import OperationError, ScheduleNotFound
from ..models import CronSchedule
from ..policies import Overlap
from ..producer.waking import wake_queues
from ..store.execute import JobId
from ..store.schedules import fire_slots, list_unfinished_jobs
from .actors import require

CHANGE_SCHEDULE: Final = "django_pgjobs.change_cronschedule"
PAUSE_SCHEDULE: Final = "django_pgjobs.pause_schedule"
RUN_SCHEDULE: Final = "django_pgjobs.run_schedule"

#: What decides when a schedule is due.
TIMING: Final = frozenset({"cron_expression", "timezone", "enabled"})


def restart() -> dict[str, Any]:
    """Return the columns to write with a change of what is in ``TIMING``.

    From then on the schedule's slots count, and none from before.
    """
    return {"active_since": Now(), "next_run_at": None, "queued_slot_at": None, "problem": ""}


def pause_schedule(actor: Any, schedule_id: int) -> bool:
    """Stop a schedule. Return False if it was paused before.

    Its unfinished jobs go on. Slots that come while it is paused never fire.

    Raises:
        PermissionRequired: the actor may not pause schedules.
        ScheduleNotFound: there is no such schedule.
    """
    require(actor, PAUSE_SCHEDULE)
    with transaction.atomic(using=_alias()):
        if not _locked(schedule_id).enabled:
            return False
        _rows().filter(pk=schedule_id).update(enabled=False, queued_slot_at=None)
    return True


def resume_schedule(actor: Any, schedule_id: int) -> bool:
    """Let a schedule go on, with the first slot after now. Return False if it was not paused.

    Raises:
        PermissionRequired: the actor may not resume schedules.
        ScheduleNotFound: there is no such schedule.
    """
    require(actor, PAUSE_SCHEDULE)
    with transaction.atomic(using=_alias()):
        if _locked(schedule_id).enabled:
            return False
        _rows().filter(pk=schedule_id).update(enabled=True, **restart())
    return True


def run_schedule(actor: Any, schedule_id: int) -> JobId:
    """Enqueue the job of a schedule at once, beside its slots. Return the job's id.

    It also works while the schedule is paused.

    Raises:
        PermissionRequired: the actor may not run schedules.
        ScheduleNotFound: there is no such schedule.
        OperationError: its last job is unfinished, and its jobs must not overlap.
    """
    require(actor, RUN_SCHEDULE)
    connection, conf = connections[_alias()], get_settings()
    defaults = Defaults(queue=conf.default_queue, max_attempts=conf.default_max_attempts)
    with transaction.atomic(using=_alias()):
        schedule = _locked(schedule_id)
        last = schedule.last_job_id
        if (
            last is not None
            and schedule.overlap != Overlap.ALLOW
            # After the lock, and in a statement of its own, as when a slot fires.
            and list_unfinished_jobs(connection, [JobId(last)])
        ):
            raise OperationError(
                f"The last job of the schedule {schedule.name!r}, {last}, is unfinished, and its "
                "jobs must not overlap. Wait for it, or cancel it."
            )
        definition = registry.find(schedule.job_name)
        firing = firing_of(schedule.pk, schedule.name, None, definition, defaults)
        (fired,) = fire_slots(connection, [firing])
        _rows().filter(pk=schedule_id).update(last_job_id=fired.job_id, last_run_at=Now())
        wake_queues(connection, {fired.queue_name: 1})
    return fired.job_id


def put_schedule(
    actor: Any,
    job: Any,
    *,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    **options: Any,
) -> CronSchedule:
    """Make a schedule that belongs to no code, or change it to be so.

    For schedules that are data, such as one for each tenant in the tenant's time zone. Its name
    is unique among those of its tenant. A new expression or zone fires no slot from before.

    Args:
        actor: a user, or None.
        job: what ``@job`` returned, or the name of a job.
        name: of the schedule.
        arguments: of the handler, by name.
        **options: the fields of :class:`ScheduleOptions`: cron, timezone, tenant and so on.

    Raises:
        PermissionRequired: the actor may not change schedules.
        UnknownJob: no job of that name is registered in this process.
        InvalidSchedule: the schedule makes no sense.
        OperationError: code declares a schedule of that name.
    """
    require(actor, CHANGE_SCHEDULE)
    schedule = declared(
        registry.get(job if isinstance(job, str) else job.name),
        ScheduleOptions(**options),
        name=name,
        arguments={} if arguments is None else arguments,
        max_payload_bytes=get_settings().max_payload_bytes,
    )
    columns = schedule.columns(default_timezone=django_settings.TIME_ZONE)
    key = {"name": schedule.name, "tenant_id": schedule.options.tenant}
    with transaction.atomic(using=_alias()):
        row, is_new = _rows().select_for_update().get_or_create(**key, defaults=columns)
        if row.owner:
            raise OperationError(
                f"The schedule {name!r} is declared in the code of {row.owner!r}. Change it there."
            )
        changed = {column for column, value in columns.items() if getattr(row, column) != value}
        if not is_new and changed:
            again = restart() if changed & TIMING else {"next_run_at": None}
            _rows().filter(pk=row.pk).update(**columns, **again)
            row.refresh_from_db(using=_alias())
    return row


def _locked(schedule_id: int) -> CronSchedule:
    row = _rows().select_for_update().filter(pk=schedule_id).first()
    if row is None:
        raise ScheduleNotFound(f"There is no schedule {schedule_id!r}.")
    return row


def _rows() -> models.QuerySet[CronSchedule]:
    return CronSchedule.objects.using(_alias())


def _alias() -> str:
    return get_settings().database
