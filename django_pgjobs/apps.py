"""The app: registers checks and imports each installed app's ``jobs`` module."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as current_apps
from django.apps.registry import Apps
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class PgJobsConfig(AppConfig):
    """Configuration of django-pgjobs."""

    name = "django_pgjobs"
    label = "django_pgjobs"
    verbose_name = _("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # These need the app registry.
        from . import checks  # noqa: F401, PLC0415
        from .observability import logs  # noqa: F401, PLC0415

        autodiscover_modules("jobs")
        post_migrate.connect(
            _write_schedules, sender=self, dispatch_uid="django_pgjobs.apps._write_schedules"
        )


def _write_schedules(
    *, using: str, apps: Apps = current_apps, verbosity: int = 1, **kwargs: Any
) -> None:
    """Write the schedules that code declares, whenever ``migrate`` has made our tables."""
    # As ready(): these need the app registry.
    from .administration.declaring import synchronise  # noqa: PLC0415
    from .conf import get_settings  # noqa: PLC0415
    from .definitions.registry import registry  # noqa: PLC0415

    # Migrated backwards, or to a database that is not that of the jobs.
    if using != get_settings().database or not _has_schedules(apps):
        return
    changes = synchronise(registry)
    if verbosity and changes:
        print(f"  Schedules declared in code: {changes}")


def _has_schedules(apps: Apps) -> bool:
    try:
        model = apps.get_model("django_pgjobs", "CronSchedule")
    except LookupError:
        return False
    return any(field.name == "owner" for field in model._meta.get_fields())
