"""The models say what the catalogue says."""

from __future__ import annotations

import json

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db

MODELS = sorted(
    apps.get_app_config("django_pgjobs").get_models(), key=lambda model: model.__name__
)

# Part of the protocol only: no screen shows them and nothing in Python reads them as rows.
WITHOUT_A_MODEL = {
    "claim_floors",
    "cron_runs",
    "kept_epochs",
    "maintenance_leader",
    "outcome_counts",
}

COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull
    FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""


def catalogue(table):
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, [table])
        return {name: (type_name, is_null) for name, type_name, is_null in cursor.fetchall()}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_model_has_the_columns_of_its_table(model):
    declared = {
        field.column: (field.db_type(connection), field.null)
        for field in model._meta.local_concrete_fields
    }

    assert declared == catalogue(model._meta.db_table)


@pytest.mark.parametrize("table", ["jobs_completed", "job_attempts"])
def test_every_partition_has_the_columns_of_its_parent(table):
    assert catalogue(f"{table}_default") == catalogue(table)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_default_of_a_column_is_that_of_its_field(model):
    fields = {
        field.column: field for field in model._meta.local_concrete_fields if field.has_default()
    }

    assert {
        name: value
        for name, value in default_values(model._meta.db_table).items()
        if name in fields and fields[name].get_default() != fields[name].to_python(value)
    } == {}


def default_values(table):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, pg_get_expr(adbin, adrelid) FROM pg_attrdef "
            "JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum "
            "WHERE adrelid = %s::regclass AND NOT pg_get_expr(adbin, adrelid) LIKE '%%(%%'",
            [table],
        )
        values = {}
        for name, expression in cursor.fetchall():
            cursor.execute(f"SELECT to_jsonb({expression})::text")
            values[name] = json.loads(cursor.fetchone()[0])
        return values


def test_every_table_has_a_model_or_is_known_to_have_none():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition "
            "AND relnamespace = current_schema()::regnamespace"
        )
        tables = {name for (name,) in cursor.fetchall()}
    of_others = {
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_label != "django_pgjobs"
    }
    ours = {model._meta.db_table for model in MODELS}

    assert tables - of_others - {"django_migrations"} == ours | WITHOUT_A_MODEL


def test_the_enum_has_the_states_in_their_order():
    from django_pgjobs.states import JobStatus

    with connection.cursor() as cursor:
        cursor.execute("SELECT enum_range(NULL::job_status)::text[]")

        assert cursor.fetchone()[0] == JobStatus.values
