"""The schedule of the daily report. People can change it in the admin afterwards."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

NAME = "daily report"


def make_schedule(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    schedules = apps.get_model("django_pgjobs", "CronSchedule").objects
    schedules.get_or_create(
        name=NAME,
        defaults={
            "job_name": "example_project.shop.jobs.daily_report",
            "cron_expression": "0 6 * * *",
            "timezone": "Europe/Berlin",
        },
    )


def remove_schedule(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("django_pgjobs", "CronSchedule").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial"), ("django_pgjobs", "0001_initial")]
    operations = [migrations.RunPython(make_schedule, remove_schedule)]
