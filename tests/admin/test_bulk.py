"""Acts on all jobs that match, and the page of errors by kind."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry

from django_pgjobs.admin import bulk
from django_pgjobs.administration import operations
from django_pgjobs.models import ActiveJob, CompletedJob
from tests import factories

from .conftest import VIEW_ALL, messages_of, url

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


def test_who_may_act_is_led_to_the_page_by_the_list(operator, viewer):
    for model, page in (("completedjob", "redrive"), ("activejob", "cancel")):
        link = f'href="{url(model, page)}"'

        assert link in operator.get(url(model)).content.decode()
        assert link not in viewer.get(url(model)).content.decode()


def test_counting_comes_before_acting(operator):
    factories.dead_job(job_name="a")
    factories.dead_job(job_name="b")

    empty = operator.get(url("completedjob", "redrive"))
    counted = operator.get(url("completedjob", "redrive"), {"status": "dead", "job": "a"})

    assert (empty.context["count"], counted.context["count"]) == (None, 1)
    assert "1 job matches." in counted.content.decode()
    assert CompletedJob.objects.count() == 2


def test_what_matches_is_redriven_and_told(operator):
    factories.dead_job(job_name="a", tenant_id=3, fingerprint="f")
    taken = factories.dead_job(job_name="a", tenant_id=3, fingerprint="f", idempotency_key="k")
    factories.pending_job(job_name="a", tenant_id=3, idempotency_key="k")
    factories.dead_job(job_name="a")

    wanted = {"status": "dead", "job": "a", "tenant": "3", "fingerprint": "f"}
    response = operator.post(url("completedjob", "redrive"), wanted, follow=True)

    assert messages_of(response) == [
        "Redriven: 1. Conflicting, because an unfinished job holds the idempotency key: 1. "
        "Skipped: 0."
    ]
    assert response.context["count"] == 1
    assert CompletedJob.objects.filter(fingerprint="f").get() == taken
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (operator.user.pk, None)
    assert "tenant=3" in entry.change_message


def test_what_matches_is_cancelled_and_told(operator):
    factories.pending_jobs(2, queue_name="mail")
    factories.running_job(queue_name="mail")
    factories.pending_job()

    wanted = {"queue": "mail", "since": "2000-01-01 00:00"}
    response = operator.post(url("activejob", "cancel"), wanted, follow=True)

    assert messages_of(response) == ["Cancelled: 2. Asked to stop: 1. Skipped: 0."]
    assert ActiveJob.objects.count() == 2


def test_one_request_acts_on_some_thousands_only(operator, monkeypatch):
    monkeypatch.setattr(operations, "BATCH", 1)
    monkeypatch.setattr(bulk, "_PARTS", 2)
    factories.pending_jobs(3)

    response = operator.post(url("activejob", "cancel"), {"status": "pending"}, follow=True)

    assert messages_of(response)[1] == "There may be more. Go on."
    assert ActiveJob.objects.count() == 1


@pytest.mark.parametrize(
    ("model", "page", "permission"),
    [("completedjob", "redrive", "redrive_job"), ("activejob", "cancel", "cancel_job")],
)
def test_the_act_needs_its_permission_and_the_right_to_look(
    client_of, viewer, model, page, permission
):
    factories.pending_job()
    factories.dead_job()

    for client in (viewer, client_of(permission)):
        for response in (client.get(url(model, page)), client.post(url(model, page), {})):
            assert response.status_code == 403
    assert client_of(*VIEW_ALL, permission).get(url(model, page)).status_code == 200
    assert (ActiveJob.objects.count(), CompletedJob.objects.count()) == (1, 1)


@pytest.mark.parametrize(
    "wanted",
    [
        {"status": "completed"},
        {"status": "dead", "tenant": "many"},
        {"status": "dead", "tenant": "9" * 30},
        {"status": "dead", "job": "a\x00"},
        {"status": "dead", "since": "soon"},
        {"status": "dead", "fingerprint": "x" * 300},
        {"status": "dead", "job": "é" * 200},
    ],
    ids=str,
)
def test_a_filter_that_makes_no_sense_does_nothing(operator, wanted):
    factories.dead_job()

    response = operator.post(url("completedjob", "redrive"), wanted)

    assert response.status_code == 200
    assert response.context["form"].errors
    assert response.context["count"] is None
    assert not ActiveJob.objects.exists()


# Errors


def fail(**fields):
    return factories.JobAttemptFactory(
        **{"job_id": 7, "fingerprint": "f", "error_class": "ValueError", **fields}
    )


def test_errors_are_shown_by_kind_with_the_way_to_their_jobs(operator):
    dead = factories.dead_job(fingerprint="f")
    fail(job_id=dead.id, claim=9, error_message="no such order")
    fail(fingerprint="g", error_class="KeyError")

    text = operator.get(url("jobattempt", "errors")).content.decode()

    assert "ValueError" in text
    assert "no such order" in text
    assert f"{url('completedjob')}?status=dead&amp;q=fingerprint:f" in text
    assert url("completedjob", "change", dead.id) in text
    assert (
        f'href="{url("jobattempt", "errors")}"' in operator.get(url("jobattempt")).content.decode()
    )


def test_messages_of_errors_are_for_those_who_may_see_payloads(viewer):
    fail(error_message="secret")

    text = viewer.get(url("jobattempt", "errors")).content.decode()

    assert "ValueError" in text
    assert "secret" not in text


def test_links_lead_only_where_the_user_may_look(client_of):
    factories.dead_job(fingerprint="f")
    fail()

    text = client_of("view_jobattempt").get(url("jobattempt", "errors")).content.decode()

    assert "/completedjob/" not in text


def test_what_errors_say_is_text(operator):
    fail(error_class=SCRIPT, error_message=SCRIPT, job_name=SCRIPT, fingerprint=SCRIPT)
    factories.dead_job(fingerprint=SCRIPT)

    text = operator.get(url("jobattempt", "errors")).content.decode()

    assert SCRIPT not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("period", ["hour", "day", "week", "month", "", "\x00", "' OR 1=1"])
def test_any_period_may_be_asked_for(operator, period):
    fail()

    page = operator.get(url("jobattempt", "errors"), {"period": period})

    assert page.status_code == 200
    assert len(page.context["groups"]) == 1


def test_dead_jobs_are_found_by_fingerprint(operator):
    wanted = factories.dead_job(fingerprint="f")
    factories.dead_job(fingerprint="g")

    page = operator.get(url("completedjob"), {"status": "dead", "q": "fingerprint:f"})

    assert [job.pk for job in page.context["cl"].result_list] == [wanted.pk]
