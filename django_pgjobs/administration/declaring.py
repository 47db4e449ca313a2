"""Write the schedules that code declares to the database, at deploy.

``migrate`` does so, and ``manage.py pgjobs_schedules --sync``. Maintenance does not: it may run
where the code is not installed, or is still the old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from ..conf import get_settings
from ..definitions.registry import Registry
from ..definitions.schedules import Schedule
from ..exceptions import InvalidSchedule
from ..models import CronSchedule

_TIMING = frozenset({"cron_expression", "timezone"})


@dataclass(slots=True)
class Changes:
    """What code declares and the database does not have so, by name.

    Attributes:
        created: new ones.
        changed: those whose declaration has changed.
        restored: those that had been removed.
        removed: those that are not declared any more.
        taken: those whose name a schedule has that code has not made; they are left alone.
    """

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.created, self.changed, self.restored, self.removed, self.taken))

    def __str__(self) -> str:
        parts = [
            ("created", self.created),
            ("changed", self.changed),
            ("restored", self.restored),
            ("removed", self.removed),
            ("left alone, as their names are taken by schedules made elsewhere", self.taken),
        ]
        return "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names) or "-"


def synchronise(registry: Registry) -> Changes:
    """Make the rows of this code base what it declares, in one transaction.

    Keeps an operator's pause, and what has been fired. A schedule whose expression or zone has
    changed, or that is declared again, fires no slot from before now. One that is not declared any
    more stops, and stays for its history until somebody deletes it. Schedules made by people, or
    by other code bases, are left alone.

    Args:
        registry: what code declares.

    Raises:
        InvalidSchedule: the arguments of one take too much room. Nothing is written.
    """
    alias = get_settings().database
    with transaction.atomic(using=alias):
        return _Synchronisation(registry.schedules, alias).run()


def compare(registry: Registry) -> Changes:
    """Return what ``synchronise`` would do, and do nothing."""
    alias = get_settings().database
    with transaction.atomic(using=alias):
        changes = _Synchronisation(registry.schedules, alias).run()
        transaction.set_rollback(True, using=alias)
    return changes


class _Synchronisation:
    def __init__(self, schedules: Iterable[Schedule], alias: str) -> None:
        self._declared = {schedule.key: schedule for schedule in schedules}
        self._rows = CronSchedule.objects.using(alias)
        self._alias = alias
        self._owner = get_settings().schedule_owner
        self._changes = Changes()

    def run(self) -> Changes:
        """Write what differs."""
        names = [name for name, _ in self._declared]
        # Waits for whoever fires them, and they for this.
        concerned = self._rows.select_for_update().filter(Q(owner=self._owner) | Q(name__in=names))
        rows = {(row.name, row.tenant_id): row for row in concerned.order_by("id")}
        for key, schedule in sorted(self._declared.items()):
            columns = _columns(schedule)
            if key not in rows:
                self._create(key, columns)
            elif rows[key].owner != self._owner:
                self._changes.taken.append(schedule.name)
            else:
                self._update(rows[key], columns)
        for key, row in rows.items():
            if key not in self._declared and row.owner == self._owner and row.removed_at is None:
                self._remove(row)
        return self._changes

    def _create(self, key: tuple[str, int], columns: dict[str, Any]) -> None:
        name, tenant = key
        row = CronSchedule(name=name, tenant_id=tenant, owner=self._owner, **columns)
        # Two deploys at once declare the same.
        self._rows.bulk_create([row], ignore_conflicts=True)
        self._changes.created.append(name)

    def _update(self, row: CronSchedule, columns: dict[str, Any]) -> None:
        changed = {name for name, value in columns.items() if getattr(row, name) != value}
        is_restored = row.removed_at is not None
        if not changed and not is_restored:
            return
        values: dict[str, Any] = {**columns, "removed_at": None, "next_run_at": None}
        if is_restored or changed & _TIMING:
            values |= {"active_since": Now(), "queued_slot_at": None, "problem": ""}
        self._rows.filter(pk=row.pk).update(**values)
        (self._changes.restored if is_restored else self._changes.changed).append(row.name)

    def _remove(self, row: CronSchedule) -> None:
        self._rows.filter(pk=row.pk).update(removed_at=Now(), queued_slot_at=None)
        self._changes.removed.append(row.name)


def _columns(schedule: Schedule) -> dict[str, Any]:
    size, limit = len(schedule.payload.encode()), get_settings().max_payload_bytes
    if size > limit:
        raise InvalidSchedule(
            f"The arguments of the schedule {schedule.name!r} take {size} bytes; at most {limit} "
            "are allowed by PGJOBS['MAX_PAYLOAD_BYTES']."
        )
    return schedule.columns(default_timezone=django_settings.TIME_ZONE)
