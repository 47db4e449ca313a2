"""The page of a job: its history, its links, and what only some may see."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.contrib import admin

from django_pgjobs.models import JobWorker
from tests import factories

from .conftest import MODELS, VIEW_ALL, url
from .test_rights import worker

pytestmark = pytest.mark.django_db

SECRET = "sk-live-7"


def page_of(client, model, key, **options):
    """Return the text of the page of a row."""
    response = client.get(url(model, "change", admin.utils.quote(key)), **options)
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_of_a_job_shows_its_attempts_the_newest_first(viewer):
    job = factories.dead_job(attempt=3)
    factories.dead_job(attempt=1)

    response = viewer.get(url("completedjob", "change", job.pk))

    assert [row.claim for row in response.context["attempts"]] == [3, 2, 1]
    assert "3/3" in response.content.decode()


def test_the_page_of_a_job_shows_the_newest_of_very_many_attempts(viewer):
    job = factories.failed_job(attempt=101, max_attempts=500)

    response = viewer.get(url("activejob", "change", job.pk))

    assert [row.claim for row in response.context["attempts"]] == list(range(101, 1, -1))
    assert "Only the newest are shown." in response.content.decode()


def test_a_link_to_a_job_follows_it_to_the_other_table(viewer):
    finished, unfinished = factories.completed_job(), factories.pending_job()

    for model, other, job in (
        ("activejob", "completedjob", finished),
        ("completedjob", "activejob", unfinished),
    ):
        response = viewer.get(url(model, "change", job.pk))
        assert response["Location"] == url(other, "change", job.pk)


def test_a_job_that_is_gone_is_told(viewer):
    response = viewer.get(url("activejob", "change", 10**9))

    assert response["Location"] == "/admin/"


def test_a_link_does_not_lead_where_the_user_may_not_look(client_of):
    job = factories.completed_job()

    response = client_of("view_activejob").get(url("activejob", "change", job.pk))

    assert response["Location"] == "/admin/"


def test_the_list_of_attempts_links_to_the_job(viewer, client_of):
    job = factories.failed_job()

    link = f'<a href="{url("activejob", "change", job.pk)}">{job.pk}</a>'
    assert link in viewer.get(url("jobattempt")).content.decode()

    narrow = client_of("view_jobattempt").get(url("jobattempt")).content.decode()
    assert (str(job.pk) in narrow, "/activejob/" in narrow) == (True, False)


def test_there_is_no_page_of_one_attempt(operator):
    factories.failed_job()

    for path in ("1/", "1/change/", "1/history/", "1/delete/", "add/"):
        assert operator.get(url("jobattempt") + path).status_code == 404


def secret_rows():
    """Write a secret into every private column."""
    private = {"payload": {"api_key": SECRET}, "meta": {"m": SECRET}}
    active = factories.pending_job(**private)
    dead = factories.dead_job(result={"r": SECRET}, error_message=SECRET, attempt=1, **private)
    factories.JobAttemptFactory(
        job_id=active.pk, error_class="ValueError", error_message=SECRET, traceback=SECRET
    )
    schedule = factories.CronScheduleFactory(payload=private["payload"])
    return (("activejob", active.pk), ("completedjob", dead.pk), ("cronschedule", schedule.pk))


def test_payloads_results_and_errors_are_hidden(client_of):
    pages = secret_rows()
    editor = client_of(*VIEW_ALL, "change_cronschedule", "add_cronschedule")

    texts = [page_of(editor, model, key) for model, key in pages]
    texts += [editor.get(url(model)).content.decode() for model in MODELS]

    assert not [text for text in texts if SECRET in text]
    assert "ValueError" in texts[0]


def test_payloads_results_and_errors_are_shown_to_those_who_may_see_them(client_of):
    pages = secret_rows()
    client = client_of(*VIEW_ALL, "view_payload")

    counts = [page_of(client, model, key).count(SECRET) for model, key in pages]

    # Payload, meta, error and traceback; payload, meta, error and result; payload.
    assert counts == [4, 4, 1]


class Outline(HTMLParser):
    """The elements of a page and the names of their attributes, and the addresses in them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.addresses = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *sorted(name for name, _value in attrs)))
        self.addresses += [
            value or "" for name, value in attrs if name in {"href", "src", "action"}
        ]


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</pre></td></script><b>x</b>",
    "{{ 7|add:7 }}{% load x %}&lt;b&gt;",
)


def fill(text):
    """Write ``text`` wherever a row takes any; return the addresses that show it."""
    short = text[:60]
    names = {"job_name": text, "queue_name": short}
    data = {"payload": {text: [text, {text: text}]}, "meta": {text: text}}
    keys = {"idempotency_key": text, "group_key": text}
    active = factories.running_job(worker=text, **names, **data, **keys)
    failure = {"error_class": text, "error_message": text}
    dead = factories.dead_job(
        attempt=1, locked_by=text, result=[text], **failure, **names, **data, **keys
    )
    for job in (active, dead):
        factories.JobAttemptFactory(
            job_id=job.pk, claim=9, worker_id=text, traceback=text, **failure, **names
        )
    queue = factories.PausedQueueFactory(queue_name=short, paused_by=text)
    schedule = factories.CronScheduleFactory(
        name=text,
        job_name=text,
        queue_name=short,
        cron_expression=text,
        timezone=text,
        payload={text: text},
    )
    process = worker(worker_id=text, hostname=text, queues=[text, text])
    pages = {
        "activejob": active.pk,
        "completedjob": dead.pk,
        "queueconfig": queue.pk,
        "cronschedule": schedule.pk,
        "jobworker": process.pk,
    }
    for model, key in pages.items():
        for kind in ("change", "history"):
            yield url(model, kind, admin.utils.quote(key))
    yield url("cronschedule", "delete", schedule.pk)
    yield url("queueconfig", "add")
    yield from (
        f"{url(model)}?q={{text}}" for model in ("activejob", "completedjob", "jobattempt")
    )
    yield from (url(model) for model in MODELS)
    yield "/admin/"


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_rows_is_never_markup(operator, text):
    harmless = "x" * len(text)
    plain = outlines(operator, harmless)
    for model in (
        JobWorker,
        *(page for page in admin.site._registry if page._meta.model_name in MODELS),
    ):
        model.objects.all().delete()

    hostile = outlines(operator, text)

    for (address, expected), (_address, found) in zip(plain, hostile, strict=True):
        assert found.elements == expected.elements, address
        assert not [link for link in found.addresses if "script:" in link.lower()[:20]], address


def outlines(client, text):
    """Return every page that shows ``text``, and its outline."""
    from urllib.parse import quote

    found = []
    for address in list(fill(text)):
        response = client.get(address.replace("{text}", quote(text)))
        assert response.status_code == 200, address
        found.append((address, Outline(response.content.decode())))
    return found


def test_hostile_text_is_shown_as_it_is(operator):
    job = factories.pending_job(payload={"html": "<script>alert(1)</script>"})

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page_of(operator, "activejob", job.pk)


def test_a_page_needs_no_script(operator):
    job = factories.dead_job()

    text = page_of(operator, "completedjob", job.pk)

    assert "onclick" not in text
    assert '<button type="submit">' in text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"current": 40, "total": 1000, "message": "<b>pages</b>"}, "40/1,000 (4%) &lt;b&gt;"),
        ({"current": 0.5}, "0.5"),
        ({"current": 3, "total": 0}, "3/0"),
        (None, "-"),
    ],
)
def test_the_progress_of_a_running_job_is_shown(client_of, said, shown):
    job = factories.running_job(progress=said)

    text = page_of(client_of(*VIEW_ALL), "activejob", job.pk)

    row = re.search(r'field-progress_text.*?class="readonly">(.*?)</div>', text, re.S)
    assert row.group(1).startswith(shown)
