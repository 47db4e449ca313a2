"""What the lists show, find and refuse."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_pgjobs.admin.jobs import JobAdmin
from django_pgjobs.models import ActiveJob, CompletedJob, JobAttempt
from tests import factories

from .conftest import MODELS, messages_of, url

pytestmark = pytest.mark.django_db

PROTOCOL = {
    "activejob": ActiveJob,
    "completedjob": CompletedJob,
    "jobattempt": JobAttempt,
}


def ids(response):
    """Return the ids of the jobs in a list."""
    return [getattr(row, "job_id", row.pk) for row in response.context["cl"].result_list]


@pytest.mark.parametrize("model", MODELS)
def test_an_empty_list_is_shown(viewer, model):
    assert viewer.get(url(model)).status_code == 200


@pytest.mark.parametrize("model", PROTOCOL)
def test_no_list_counts_rows_or_reads_private_columns(operator, model):
    factories.running_job(attempt=2)
    factories.dead_job()

    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = operator.get(url(model), {"_facets": "True", "all": "", "q": ""})

    assert len(ids(response)) >= 1
    ours = [query["sql"] for query in queries if '"job' in query["sql"]]
    assert not [sql for sql in ours if "COUNT(" in sql.upper()]
    for column in ("payload", "result", "error_message", "traceback", "meta"):
        assert not [sql for sql in ours if f'"{column}"' in sql]


def test_a_list_of_jobs_continues_where_the_page_before_ended(viewer, monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    jobs = factories.pending_jobs(5)
    newest = [job.pk for job in reversed(jobs)]

    first = viewer.get(url("activejob"))
    second = viewer.get(url("activejob") + first.context["cl"].older)
    factories.pending_job()
    third = viewer.get(url("activejob") + second.context["cl"].older)

    assert [ids(first), ids(second), ids(third)] == [newest[:2], newest[2:4], newest[4:]]
    assert third.context["cl"].older is None
    assert ">Newest<" in third.content.decode()
    assert 'href="?before=' in second.content.decode()


def test_a_list_of_attempts_continues_within_a_job(viewer, monkeypatch):
    monkeypatch.setattr(admin.site._registry[JobAttempt], "list_per_page", 2)
    jobs = [factories.failed_job(attempt=attempt) for attempt in (2, 1)]
    expected = [(jobs[1].pk, 1), (jobs[0].pk, 2), (jobs[0].pk, 1)]

    first = viewer.get(url("jobattempt"))
    second = viewer.get(url("jobattempt") + first.context["cl"].older)

    rows = [*first.context["cl"].result_list, *second.context["cl"].result_list]
    assert [(row.job_id, row.claim) for row in rows] == expected


def test_a_rare_match_is_looked_for_one_stretch_of_rows_at_a_time(viewer, monkeypatch):
    monkeypatch.setattr(JobAdmin, "rows_per_look", 3)
    wanted = factories.pending_job(queue_name="email")
    factories.pending_jobs(4)

    first = viewer.get(url("activejob"), {"queue": "email"})
    second = viewer.get(url("activejob") + first.context["cl"].older)

    assert (ids(first), first.context["cl"].is_cut) == ([], True)
    assert "Look further back" in first.content.decode()
    assert ids(second) == [wanted.pk]
    assert second.context["cl"].older is None


def test_running_jobs_are_found_however_many_jobs_are_newer(viewer, monkeypatch):
    monkeypatch.setattr(JobAdmin, "rows_per_look", 1)
    wanted = factories.running_job(queue_name="email")
    factories.pending_jobs(3)

    response = viewer.get(url("activejob"), {"status": "running", "queue": "email"})

    assert ids(response) == [wanted.pk]
    assert response.context["cl"].older is None


def test_a_filter_begins_at_the_newest_page(viewer):
    factories.pending_jobs(2)

    response = viewer.get(url("activejob"), {"before": "999999"})

    choices = response.context["cl"].filter_specs[0].choices(response.context["cl"])
    assert not [choice for choice in choices if "before" in choice["query_string"]]
    assert 'name="before"' not in response.content.decode()


@pytest.mark.parametrize(
    ("model", "search"),
    [
        ("activejob", "{id}"),
        ("activejob", "#{id}"),
        ("activejob", " id:{id} "),
        ("activejob", "job:tests.wanted"),
        ("activejob", 'job:"tests.wanted" queue:bulk'),
        ("activejob", "tenant:7"),
        ("activejob", 'job:tests.wanted tenant:7 key:"order 17"'),
        ("completedjob", "{id}"),
        ("completedjob", "job:tests.wanted"),
        ("completedjob", "queue:bulk"),
        ("completedjob", "tenant:7 queue:bulk"),
        ("jobattempt", "{id}"),
    ],
)
def test_a_search_finds_exact_values(viewer, model, search):
    fields = {"job_name": "tests.wanted", "queue_name": "bulk", "tenant_id": 7}
    wanted = {
        "activejob": lambda: factories.pending_job(idempotency_key="order 17", **fields),
        "completedjob": lambda: factories.completed_job(**fields),
        "jobattempt": lambda: factories.dead_job(attempt=1),
    }[model]()
    factories.pending_job(idempotency_key="order 17")
    factories.completed_job()
    factories.dead_job(attempt=1)

    response = viewer.get(url(model), {"q": search.format(id=wanted.pk)})

    assert ids(response) == [wanted.pk]


def test_a_key_alone_is_looked_for_among_the_registered_jobs(viewer):
    wanted = factories.pending_job(idempotency_key="k")
    factories.pending_job(idempotency_key="k", job_name="tests.unregistered")
    factories.pending_job(idempotency_key="k", tenant_id=3)

    assert ids(viewer.get(url("activejob"), {"q": "key:k"})) == [wanted.pk]


@pytest.mark.parametrize("model", PROTOCOL)
@pytest.mark.parametrize(
    "search",
    [
        "send mail",
        "9" * 19,
        "9" * 5000,
        "-1",
        "id:abc",
        "tenant:99999999999999999999",
        "payload:secret",
        "job:",
        '"',
        "'",
        'job:"a\' OR 1=1 --"',
        "id:1 id:2",
        "١٢",
        "\N{GRINNING FACE}",
        "%",
        "key:\\",
    ],
)
def test_a_text_that_is_no_search_finds_nothing(viewer, model, search):
    factories.running_job(attempt=2)
    factories.completed_job()

    response = viewer.get(url(model), {"q": search})

    assert (response.status_code, ids(response)) == (200, [])


@pytest.mark.parametrize("model", PROTOCOL)
def test_a_search_with_nul_is_refused_with_a_message(viewer, model):
    response = viewer.get(url(model), {"q": "job:\x00"})

    assert messages_of(response) == ["Null characters are not allowed."]


def test_a_text_that_is_no_search_is_explained(viewer):
    response = viewer.get(url("activejob"), {"q": "send mail"})

    assert messages_of(response) == [
        "“send” is no search. Type a number, or one of: id:, job:, queue:, tenant:, key:."
    ]


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("activejob", {"before": "abc"}),
        ("activejob", {"before": "1.2"}),
        ("activejob", {"before": "9" * 30}),
        ("activejob", {"status": "dead"}),
        ("activejob", {"status": "\x00"}),
        ("activejob", {"job": "os.system"}),
        ("activejob", {"queue": "nowhere"}),
        ("completedjob", {"status": "running"}),
        ("jobattempt", {"before": "1"}),
        ("cronschedule", {"enabled__exact": "perhaps"}),
    ],
)
def test_a_broken_address_leads_back_to_the_list(viewer, model, query):
    response = viewer.get(url(model), query)

    assert (response.status_code, response["Location"]) == (302, url(model) + "?e=1")


def test_no_column_can_be_sorted_by(viewer):
    factories.pending_jobs(3)

    with CaptureQueriesContext(connection) as queries:
        viewer.get(url("activejob"), {"o": "2.-3"})
        viewer.get(url("jobattempt"), {"o": "2.-3"})

    sql = [query["sql"] for query in queries if "ORDER BY" in query["sql"]]
    orders = {
        text.split("ORDER BY")[1].split("LIMIT")[0].strip() for text in sql if '"job' in text
    }
    assert orders == {
        '"jobs_active"."id" DESC',
        '"job_attempts"."job_id" DESC, "job_attempts"."claim" DESC',
    }


def fields():
    """Return every field of every model of ours."""
    for name in MODELS:
        model = next(m for m in admin.site._registry if m._meta.model_name == name)
        yield from ((name, field.name) for field in model._meta.fields)


@pytest.mark.parametrize(("model", "field"), list(fields()))
def test_the_address_cannot_ask_about_a_column(operator, model, field):
    lookups = ["", "__startswith", "__contains", "__gt", "__isnull", "__in", "__a__startswith"]

    for lookup in lookups:
        # A parameter of a filter of ours, which refuses the value.
        response = operator.get(url(model), {field + lookup: "1"})
        assert response.status_code == 400 or response["Location"] == url(model) + "?e=1", lookup


def test_ids_that_no_row_can_have_lead_back(operator):
    for model in ("activejob", "completedjob", "tenantconfig", "cronschedule"):
        for key in ("abc", "9" * 30, "9" * 5000, "%00", "-1", "1.5"):
            response = operator.get(url(model, "change", 1).replace("/1/", f"/{key}/"))
            assert response.status_code in {302, 404}, (model, key)
    for model in ("queueconfig", "jobworker"):
        response = operator.get(url(model, "change", 1).replace("/1/", "/a%00b/"))
        assert response.status_code == 302
