"""The migration goes forwards and backwards, anywhere."""

from __future__ import annotations

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from psycopg import conninfo as conninfos

from tests.fix_database import database

RELATIONS = """
    SELECT pg_class.relname, pg_class.relkind::text
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND relname NOT LIKE 'django_migrations%'
    UNION ALL
    SELECT typname, 'type' FROM pg_type WHERE typtype = 'e'
    ORDER BY 1, 2
"""


def relations(address):
    with psycopg.connect(address) as connection:
        return connection.execute(RELATIONS).fetchall()


@pytest.fixture
def alias(conninfo, django_db_blocker, monkeypatch):
    """Return a Django alias, not ``default``, of a database without our tables."""
    with database(conninfo, "migrated", empty=True) as address, django_db_blocker.unblock():
        other = {
            **connections["default"].settings_dict,
            "NAME": conninfos.conninfo_to_dict(address)["dbname"],
        }
        monkeypatch.setitem(connections.settings, "other", other)
        yield "other"
        connections["other"].close()
        del connections["other"]


def address_of(alias):
    settings = connections[alias].settings_dict
    names = {"dbname": "NAME", "host": "HOST", "port": "PORT", "user": "USER"}
    return conninfos.make_conninfo(
        **{name: settings[key] for name, key in names.items() if settings[key]},
        **({"password": settings["PASSWORD"]} if settings["PASSWORD"] else {}),
    )


def migrate(alias, *target):
    call_command("migrate", "django_pgjobs", *target, database=alias, verbosity=0)


@pytest.mark.slow
def test_backwards_leaves_nothing_and_forwards_makes_the_same_again(transactional_db, alias):
    migrate(alias)
    made = relations(address_of(alias))

    migrate(alias, "zero")

    assert relations(address_of(alias)) == []
    migrate(alias)
    assert relations(address_of(alias)) == made
    assert ("jobs_active", "r") in made


@pytest.mark.slow
def test_the_tables_go_to_the_first_schema_of_the_search_path(transactional_db, alias):
    with psycopg.connect(address_of(alias), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA queue")
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET search_path = queue, public"
        )

    migrate(alias)

    with psycopg.connect(address_of(alias)) as connection:
        schemas = connection.execute(
            "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_class "
            "WHERE relname ~ '^(job|queue_config|tenant_config|cron)'"
        ).fetchall()
    assert schemas == [("queue",)]


@pytest.mark.slow
def test_the_tables_work_in_another_schema_of_another_alias(transactional_db, alias, settings):
    from django_pgjobs.models import ActiveJob
    from django_pgjobs.store.claim import stage_jobs
    from tests import factories

    with psycopg.connect(address_of(alias), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA queue")
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET search_path = queue, public"
        )
    migrate(alias)
    settings.PGJOBS = {"DATABASE": alias}

    job = factories.pending_job()

    assert job._state.db == alias
    assert ActiveJob.objects.get().pk == job.pk
    assert stage_jobs(connections[alias], limit=10).staged == 0


def test_models_and_migrations_agree(db, capsys):
    call_command("makemigrations", "django_pgjobs", check=True, dry_run=True, verbosity=1)

    assert "No changes detected" in capsys.readouterr().out


def test_the_files_of_a_migration_come_in_pairs():
    from django_pgjobs.migrations._sql import _FOLDER

    names = [path.name.removesuffix(".up.sql") for path in _FOLDER.glob("*.up.sql")]

    assert names
    assert all((_FOLDER / f"{name}.down.sql").exists() for name in names)
