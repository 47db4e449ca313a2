"""The app: registers checks and imports each installed app's ``jobs`` module."""

from __future__ import annotations

from django.apps import AppConfig
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
        from .observability import failures, logs  # noqa: F401, PLC0415

        autodiscover_modules("jobs")
