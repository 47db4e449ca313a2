"""Tenants and schedules: what may be saved, and where to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_pgjobs.models import CronSchedule, TenantConfig
from tests import factories

from .conftest import VIEW_ALL, messages_of, url

SCHEDULE = {
    "name": "nightly",
    "enabled": "on",
    "cron_expression": "30 2 * * *",
    "timezone": "Europe/Vienna",
    "job_name": "tests.noop",
    "queue_name": "",
    "tenant_id": "0",
    "payload": '{"number": 7}',
    "priority": "",
    "max_attempts": "",
    "catch_up": "skip",
    "catch_up_limit": "100",
    "overlap": "allow",
    "jitter": "0",
}
#: The columns of the row.
ROW = {
    **SCHEDULE,
    "enabled": True,
    "tenant_id": 0,
    "payload": {"number": 7},
    "priority": None,
    "max_attempts": None,
    "catch_up_limit": 100,
    "jitter": timedelta(0),
}
TENANT = {"tenant_id": "7", "quota_weight": "10", "priority_boost": "0"}


def errors_of(response):
    """Return the messages of a form that was not saved, by field."""
    assert response.status_code == 200
    return dict(response.context["adminform"].form.errors)


@pytest.mark.django_db
def test_a_schedule_is_saved(operator):
    response = operator.post(url("cronschedule", "add"), SCHEDULE, follow=True)

    schedule = CronSchedule.objects.get()
    assert (schedule.payload, schedule.enabled, schedule.next_run_at) == (
        {"number": 7},
        True,
        None,
    )
    assert len(messages_of(response)) == 1


@pytest.mark.django_db
def test_a_schedule_of_an_unknown_job_is_saved_with_a_warning(operator):
    values = SCHEDULE | {"job_name": "tests.noob"}

    response = operator.post(url("cronschedule", "add"), values, follow=True)

    assert CronSchedule.objects.get().job_name == "tests.noob"
    assert messages_of(response)[0].startswith(
        "No job named 'tests.noob' is registered. Did you mean 'tests.noop'?"
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"cron_expression": "every day"}, "__all__", "The cron expression 'every day'"),
        ({"cron_expression": "99 * * * *"}, "__all__", "The cron expression"),
        ({"cron_expression": "0 0 31 2 *"}, "__all__", "The cron expression"),
        ({"cron_expression": "* * * * * * * * *"}, "__all__", "The cron expression"),
        ({"cron_expression": ""}, "cron_expression", "This field is required"),
        ({"cron_expression": "*\x00"}, "cron_expression", "Null characters"),
        ({"timezone": "Mars/Olympus"}, "__all__", "There is no time zone 'Mars/Olympus'"),
        ({"timezone": "../../etc/passwd"}, "__all__", "There is no time zone"),
        ({"timezone": "Europe"}, "__all__", "There is no time zone"),
        ({"queue_name": "a b"}, "queue_name", "queue must be 1 to 63 letters"),
        ({"job_name": "x" * 256}, "job_name", "A name has at most 255 bytes."),
        ({"payload": "[1]"}, "payload", "The payload must be a JSON object"),
        ({"payload": "7"}, "payload", "The payload must be a JSON object"),
        ({"payload": "{"}, "payload", "Enter a valid JSON"),
        ({"payload": '{"a": "\\u0000"}'}, "payload", "The argument a contains a NUL"),
        ({"payload": '{"a": "\\ud800"}'}, "payload", "The argument a contains a lone"),
        ({"payload": '{"a": NaN}'}, "payload", "The argument a is nan"),
        ({"payload": '{"a": "' + "x" * 70_000 + '"}'}, "payload", "The arguments take"),
        ({"payload": "[" * 100_000}, "payload", "Enter a valid JSON"),
        ({"tenant_id": "9" * 30}, "tenant_id", "Ensure this value is less"),
        ({"name": "x" * 256}, "name", "A name has at most 255 bytes."),
        ({"payload": '{"nmber": 7}'}, "__all__", "The arguments do not fit tests.noop"),
        ({"payload": '{"number": {"$x": 1}}'}, "__all__", "The payload"),
        ({"priority": "40000"}, "priority", "Ensure this value is less"),
        ({"max_attempts": "0"}, "__all__", "max_attempts must be 1 to"),
        ({"catch_up": "all"}, "catch_up", "Select a valid choice."),
        ({"catch_up_limit": "1001"}, "__all__", "catch_up_limit must be 1 to 1000"),
        ({"overlap": "skip", "catch_up": "catch_up"}, "__all__", "A schedule that catches up"),
        ({"jitter": "25:00:00"}, "__all__", "jitter must be a timedelta of 0 to 24 hours"),
        ({"jitter": "soon"}, "jitter", "Enter a valid duration."),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(operator, changes, field, message):
    response = operator.post(url("cronschedule", "add"), SCHEDULE | changes)

    assert errors_of(response)[field][0].startswith(message)
    assert not CronSchedule.objects.exists()


@pytest.mark.django_db
def test_two_schedules_cannot_have_one_name(operator):
    factories.CronScheduleFactory(name="nightly")

    response = operator.post(url("cronschedule", "add"), SCHEDULE)

    assert errors_of(response) == {
        "__all__": ["Schedule with this Name and Tenant already exists."]
    }


@pytest.mark.django_db
def test_an_empty_payload_is_an_empty_object(operator):
    operator.post(url("cronschedule", "add"), SCHEDULE | {"payload": ""})

    assert CronSchedule.objects.get().payload == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"cron_expression": "0 0 * * *"}, False),
        ({"timezone": "UTC"}, False),
        ({"enabled": ""}, False),
        ({"payload": '{"number": 8}'}, True),
    ],
)
def test_a_changed_timing_has_the_next_slot_worked_out_again(operator, changes, is_kept):
    slot = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = factories.CronScheduleFactory(**ROW, next_run_at=slot, active_since=slot)

    operator.post(url("cronschedule", "change", schedule.pk), SCHEDULE | changes)

    schedule.refresh_from_db()
    assert schedule.next_run_at == (slot if is_kept else None)
    # Nothing from before the change fires.
    assert (schedule.active_since == slot) is is_kept
    assert [key for key in changes if str(getattr(schedule, key)) != str(ROW[key])] == list(
        changes
    )


@pytest.mark.django_db
def test_saving_writes_only_the_columns_that_were_changed(operator):
    schedule = factories.CronScheduleFactory(**ROW | {"payload": {}})

    with CaptureQueriesContext(connections["default"]) as queries:
        operator.post(url("cronschedule", "change", schedule.pk), SCHEDULE)

    (update,) = [q["sql"] for q in queries if q["sql"].startswith('UPDATE "cron_schedules"')]
    assert update.startswith('UPDATE "cron_schedules" SET "payload" = ')
    assert "last_run_at" not in update


@pytest.mark.django_db
def test_who_may_not_see_payloads_keeps_them_when_editing(client_of):
    client = client_of(*VIEW_ALL, "change_cronschedule")
    schedule = factories.CronScheduleFactory(payload={"number": 7})

    client.post(
        url("cronschedule", "change", schedule.pk),
        SCHEDULE | {"name": "renamed", "payload": '{"number": 8}'},
    )

    schedule.refresh_from_db()
    assert (schedule.name, schedule.payload) == ("renamed", {"number": 7})


@pytest.mark.django_db
def test_a_tenant_is_added_changed_and_deleted(operator):
    operator.post(url("tenantconfig", "add"), TENANT)
    operator.post(url("tenantconfig", "change", 7), {**TENANT, "tenant_id": 8, "quota_weight": 20})

    assert list(TenantConfig.objects.values_list("tenant_id", "quota_weight")) == [(7, 20)]
    operator.post(url("tenantconfig", "delete", 7), {"post": "yes"})
    assert not TenantConfig.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changes",
    [
        {"quota_weight": "0"},
        {"quota_weight": "1001"},
        {"max_concurrent_jobs": "-1"},
        {"max_concurrent_jobs": "2147483648"},
        {"max_enqueue_per_minute": "-1"},
        {"priority_boost": "11"},
        {"priority_boost": "-11"},
        {"tenant_id": "9" * 30},
        {"tenant_id": "abc"},
    ],
)
def test_a_tenant_beyond_the_constraints_is_refused(operator, changes):
    response = operator.post(url("tenantconfig", "add"), TENANT | changes)

    assert list(errors_of(response)) == list(changes)


@pytest.mark.django_db
def test_an_existing_tenant_cannot_be_added(operator):
    factories.TenantConfigFactory(tenant_id=7)

    response = operator.post(url("tenantconfig", "add"), TENANT)

    assert errors_of(response) == {"tenant_id": ["Tenant with this Tenant already exists."]}


@pytest.mark.django_db
def test_config_needs_djangos_own_permissions(viewer):
    for model, values in (("cronschedule", SCHEDULE), ("tenantconfig", TENANT)):
        assert viewer.post(url(model, "add"), values).status_code == 403


@pytest.fixture(scope="module")
def alias(django_db_setup):
    """Name the database of the tests by an alias that no router knows."""
    connections.settings["elsewhere"] = connections["default"].settings_dict.copy()
    yield "elsewhere"
    connections["elsewhere"].close()
    del connections["elsewhere"], connections.settings["elsewhere"]


@pytest.mark.django_db(transaction=True, databases=["default", "elsewhere"])
def test_config_is_read_and_written_in_the_database_of_the_jobs(alias, tables, operator, settings):
    settings.PGJOBS = {"DATABASE": alias}

    queries = {}
    for name in ("default", alias):
        with CaptureQueriesContext(connections[name]) as captured:
            operator.post(url("tenantconfig", "add"), TENANT)
            operator.post(url("tenantconfig", "change", 7), TENANT | {"quota_weight": "20"})
            operator.get(url("tenantconfig"))
            operator.post(url("tenantconfig", "delete", 7), {"post": "yes"})
            operator.post(url("queueconfig", "add"), {"queue_name": "email"})
            operator.get(url("activejob"))
        queries[name] = [query["sql"] for query in captured]

    ours = ("tenant_config", "queue_config", "jobs_active")
    assert not [sql for sql in queries["default"] if any(f'"{table}"' in sql for table in ours)]
    verbs = {sql.split()[0] for sql in queries[alias] if '"tenant_config"' in sql}
    assert verbs == {"SELECT", "INSERT", "UPDATE", "DELETE"}
