"""The router sends our models to PGJOBS["DATABASE"], and nothing else anywhere."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connections, router

from django_pgjobs.models import ActiveJob, CronSchedule, JobAttempt, QueueConfig
from django_pgjobs.routers import PgJobsRouter
from tests import factories

OURS = "django_pgjobs.routers.PgJobsRouter"


class ReadsFromReplica:
    """Sends every read to an alias that does not exist: no read of ours may go there."""

    def db_for_read(self, model, **hints):
        return "replica"


@pytest.mark.parametrize("model", [ActiveJob, JobAttempt, CronSchedule])
def test_our_models_are_read_and_written_where_the_jobs_are(settings, model):
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = [OURS, f"{__name__}.ReadsFromReplica"]

    assert router.db_for_read(model) == "jobs"
    assert router.db_for_write(model) == "jobs"


def test_the_models_of_others_are_left_to_others(settings):
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = [OURS, f"{__name__}.ReadsFromReplica"]

    assert router.db_for_read(Group) == "replica"
    assert router.db_for_write(Group) == "default"
    assert PgJobsRouter().allow_migrate("jobs", "auth") is None
    assert PgJobsRouter().allow_relation(Group(), Group()) is None


def test_our_tables_are_made_where_the_jobs_are_only(settings):
    settings.PGJOBS = {"DATABASE": "jobs"}
    settings.DATABASE_ROUTERS = [OURS]

    assert router.allow_migrate_model("jobs", ActiveJob)
    assert not router.allow_migrate_model("default", ActiveJob)
    assert router.allow_migrate_model("default", Group)


def test_without_a_second_database_nothing_changes(settings):
    settings.DATABASE_ROUTERS = [OURS]

    assert router.db_for_write(ActiveJob) == "default"
    assert router.allow_migrate_model("default", ActiveJob)


def test_reads_of_jobs_do_not_go_to_a_replica_even_without_our_router(jobs_alias, settings):
    settings.DATABASE_ROUTERS = [f"{__name__}.ReadsFromReplica"]

    assert ActiveJob.objects.count() == ActiveJob.objects.pending().count() == 0


def test_what_people_save_goes_where_the_jobs_are(jobs_alias, settings):
    settings.DATABASE_ROUTERS = [OURS]

    saved = QueueConfig.objects.create(queue_name="mail", paused_by="ada")
    saved.paused_by = "bob"
    saved.save()

    assert saved._state.db == jobs_alias
    assert QueueConfig.objects.get().paused_by == "bob"
    assert not QueueConfig.objects.using("default").exists()


def test_a_row_made_by_a_factory_is_there_too(jobs_alias, settings):
    settings.DATABASE_ROUTERS = [OURS]

    assert factories.pending_job()._state.db == jobs_alias


@pytest.mark.slow
def test_migrate_makes_no_table_of_ours_elsewhere(jobs_alias, settings):
    settings.DATABASE_ROUTERS = [OURS]
    settings.PGJOBS = {"DATABASE": "default"}
    with connections[jobs_alias].cursor() as cursor:
        cursor.execute("DROP TABLE jobs_active CASCADE")

    call_command("migrate", "django_pgjobs", database=jobs_alias, verbosity=0)

    with connections[jobs_alias].cursor() as cursor:
        cursor.execute("SELECT to_regclass('jobs_active')")
        assert cursor.fetchone() == (None,)
