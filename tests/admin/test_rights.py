"""Who may see which page, and who may act."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_pgjobs.models import ActiveJob, Breaker, CompletedJob, QueueConfig
from django_pgjobs.states import JobStatus
from tests import factories

from .conftest import MODELS, VIEW_ALL, messages_of, url

pytestmark = pytest.mark.django_db

PROTOCOL = ("activejob", "completedjob", "jobattempt", "jobworker", "queueconfig", "breaker")
ADMINS = {
    model._meta.model_name: page
    for model, page in admin.site._registry.items()
    if model._meta.app_label == "django_pgjobs"
}
ACTIONS = [
    (name, action)
    for name, page in ADMINS.items()
    for action in [*page.actions, "delete_selected"]
]
OWN_ACTIONS = [(name, action) for name, action in ACTIONS if action != "delete_selected"]
PERMISSIONS = {
    "cancel_jobs": "cancel_job",
    "redrive_jobs": "redrive_job",
    "pause_queues": "pause_queue",
    "resume_queues": "pause_queue",
    "pause_schedules": "pause_schedule",
    "resume_schedules": "pause_schedule",
    "run_schedules": "run_schedule",
    "open_breakers": "manage_breaker",
    "close_breakers": "manage_breaker",
}


def rows():
    """Write a row for each page; return their keys by model."""
    return {
        "activejob": factories.pending_job(payload={"number": 1}).pk,
        "completedjob": factories.dead_job().pk,
        "breaker": factories.BreakerFactory().pk,
        "queueconfig": factories.PausedQueueFactory().pk,
        "tenantconfig": factories.TenantConfigFactory().pk,
        "cronschedule": factories.CronScheduleFactory(payload={"number": 1}).pk,
        "jobworker": worker().pk,
    }


def worker(**fields):
    """Return a worker that is alive."""
    from django_pgjobs.models import JobWorker

    now = factories.server_now()
    values = {"worker_id": "w/1", "hostname": "h", "pid": 1, "queues": ["default"]}
    times = {"started_at": now, "heartbeat_at": now}
    return JobWorker.objects.create(**{**values, "concurrency": 4, **times, **fields})


def every_address():
    """Return the address of every page of ours, each with a row to show."""
    keys = rows()
    for name, page in ADMINS.items():
        for pattern in page.get_urls():
            if pattern.name is None:
                # The old address of a row, which redirects to its page.
                yield f"{url(name)}{admin.utils.quote(keys[name])}/"
                continue
            kind = pattern.name.rpartition("_")[2]
            args = [admin.utils.quote(keys[name])] if "object_id" in str(pattern.pattern) else []
            yield url(name, kind, *args)


def act(client, model, action, keys, **data):
    """Run an action on rows."""
    data = {"action": action, "_selected_action": keys, "index": 0, **data}
    return client.post(url(model), data, follow=True)


def test_anonymous_visitors_are_asked_to_log_in():
    for address in every_address():
        for response in (Client().get(address), Client().post(address, {})):
            assert response.status_code == 302, address
            assert response["Location"].startswith("/admin/login/"), address


def test_staff_without_permissions_see_nothing(client_of):
    client = client_of()

    for address in every_address():
        for response in (client.get(address, follow=True), client.post(address, follow=True)):
            assert response.status_code == 403, address


def test_acting_needs_the_right_to_look(client_of):
    client = client_of("cancel_job", "redrive_job", "pause_queue")
    keys = rows()

    assert act(client, "activejob", "cancel_jobs", [keys["activejob"]]).status_code == 403
    assert act(client, "completedjob", "redrive_jobs", [keys["completedjob"]]).status_code == 403


def test_every_post_without_a_token_is_refused(client_of):
    client = Client(enforce_csrf_checks=True)
    client.force_login(client_of(*VIEW_ALL, *PERMISSIONS.values()).user)

    for address in every_address():
        assert client.post(address, {"action": "cancel_jobs"}).status_code == 403, address


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_every_action_names_its_permission(model, action):
    found = ADMINS[model].get_action(action)

    # A tuple up to Django 6.0.
    function = found[0] if isinstance(found, tuple) else found.func
    assert function.allowed_permissions


def test_no_other_actions_are_registered():
    assert {action for _model, action in OWN_ACTIONS} == set(PERMISSIONS)


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_who_may_only_look_cannot_act(viewer, model, action):
    key = rows().get(model, 1)
    before = state()

    page = viewer.get(url(model))
    response = act(viewer, model, action, [key])
    across = act(viewer, model, action, [key], select_across=1)

    assert f'value="{action}"' not in page.content.decode()
    assert (response.status_code, across.status_code) == (200, 200)
    assert state() == before


@pytest.mark.parametrize(("model", "action"), OWN_ACTIONS)
def test_each_action_needs_its_own_permission(client_of, model, action):
    others = set(PERMISSIONS.values()) - {PERMISSIONS[action]}
    key = rows()[model]
    before = state()

    act(client_of(*VIEW_ALL, *others), model, action, [key])

    assert state() == before


@pytest.mark.parametrize(("model", "action"), OWN_ACTIONS)
def test_the_permission_is_checked_again_where_the_act_is_done(client_of, model, action, rf):
    from django_pgjobs.exceptions import PermissionRequired

    keys = rows()
    request = rf.post("/", {"_selected_action": [keys[model]]})
    request.user = client_of(*VIEW_ALL).user
    page = ADMINS[model]

    with pytest.raises(PermissionRequired):
        getattr(page, action)(request, page.get_queryset(request))


@pytest.mark.parametrize(
    ("model", "page"),
    [
        (m, p)
        for m in PROTOCOL
        for p in ("change", "delete")
        if (m, p) != ("queueconfig", "change")
    ],
)
def test_a_post_changes_no_row_of_the_protocol(operator, model, page):
    key = rows().get(model)
    if key is None:
        # The list of attempts has no pages of single ones.
        assert operator.post(f"{url(model)}1/{page}/", {}).status_code == 404
        return
    before = state()

    values = {"status": "completed", "attempt": "2", "paused": "", "post": "yes", "pid": "7"}
    response = operator.post(url(model, page, admin.utils.quote(key)), values)

    assert response.status_code == 403
    assert state() == before


@pytest.mark.parametrize("model", PROTOCOL)
def test_rows_of_the_protocol_are_not_deleted_in_a_list(operator, model):
    keys = rows()
    before = state()

    page = operator.get(url(model))
    act(operator, model, "delete_selected", [keys.get(model, 1)], post="yes")

    assert "delete_selected" not in page.content.decode()
    assert state() == before


def test_no_job_can_be_added(operator):
    for model in ("activejob", "completedjob", "jobworker", "breaker"):
        assert operator.get(url(model, "add")).status_code == 403
        assert operator.post(url(model, "add"), {}).status_code == 403


def state():
    """Return all that the pages show."""
    models = (page.model for page in ADMINS.values())
    return [list(model.objects.order_by("pk").values()) for model in models]


# Cancelling


def test_cancelling_tells_what_became_of_each_job(operator):
    pending, running = factories.pending_job(), factories.running_job()
    finished = factories.completed_job()

    response = act(operator, "activejob", "cancel_jobs", [pending.pk, running.pk, finished.pk])

    assert messages_of(response) == [
        "1 job cancelled.",
        "1 job is running; its worker has been asked to stop.",
        "1 job skipped: it had finished, or was busy. Try again.",
    ]
    assert CompletedJob.objects.get(pk=pending.pk).status == JobStatus.CANCELLED
    assert ActiveJob.objects.get(pk=running.pk).cancel_requested
    assert "running, asked to stop" in response.content.decode()
    entries = LogEntry.objects.values_list("object_id", "change_message", "user_id")
    assert set(entries) == {
        (str(job.pk), "Cancelled.", operator.user.pk) for job in (pending, running)
    }


def test_a_job_that_has_left_the_filter_is_cancelled_all_the_same(operator):
    running = factories.running_job()

    operator.post(
        url("activejob") + "?status=pending",
        {"action": "cancel_jobs", "_selected_action": [running.pk], "index": 0},
    )

    assert ActiveJob.objects.get(pk=running.pk).cancel_requested


def test_selecting_across_pages_cancels_the_checked_jobs_only(operator):
    checked, other = factories.pending_jobs(2)

    act(operator, "activejob", "cancel_jobs", [checked.pk], select_across=1)

    assert list(ActiveJob.objects.values_list("pk", flat=True)) == [other.pk]


@pytest.mark.parametrize("key", ["abc", "9" * 30, "9" * 5000, "\x00", "1.5", ""])
@pytest.mark.parametrize(("model", "action"), OWN_ACTIONS)
def test_a_selection_that_makes_no_sense_changes_nothing(operator, model, action, key):
    rows()
    before = state()

    response = act(operator, model, action, [key])

    assert response.status_code == 200
    assert state() == before


def test_the_page_of_a_job_offers_to_cancel_it(operator, viewer):
    job = factories.pending_job()

    offered = operator.get(url("activejob", "change", job.pk)).content.decode()

    assert f'name="_selected_action" value="{job.pk}"' in offered
    assert ">Cancel this job<" in offered
    assert "Cancel this job" not in viewer.get(url("activejob", "change", job.pk)).content.decode()


# Redriving


def test_redriving_tells_what_became_of_each_job(operator):
    dead = factories.dead_job()
    taken = factories.cancelled_job(idempotency_key="k")
    factories.pending_job(idempotency_key="k")
    completed = factories.completed_job()

    response = act(
        operator, "completedjob", "redrive_jobs", [dead.pk, taken.pk, completed.pk, 10**9]
    )

    assert messages_of(response) == [
        "1 job redriven.",
        "1 job conflicting: an unfinished job holds its idempotency key.",
        "2 jobs skipped: they are neither dead nor cancelled.",
    ]
    assert ActiveJob.objects.get(pk=dead.pk).status == JobStatus.PENDING
    assert list(LogEntry.objects.values_list("object_id", flat=True)) == [str(dead.pk)]


def test_only_the_page_of_an_unsuccessful_job_offers_to_redrive_it(operator):
    dead, completed = factories.dead_job(), factories.completed_job()

    pages = [
        operator.get(url("completedjob", "change", job.pk)).content.decode()
        for job in (dead, completed)
    ]

    assert [">Redrive this job<" in page for page in pages] == [True, False]


# Pausing


def test_a_queue_without_a_row_can_be_paused(client_of):
    client = client_of("pause_queue", "view_queueconfig")

    form = client.get(url("queueconfig", "add"))
    response = client.post(url("queueconfig", "add"), {"queue_name": "email"}, follow=True)

    assert "Known queues: default" in form.content.decode()
    assert messages_of(response) == ["1 queue paused."]
    queue = QueueConfig.objects.get(pk="email")
    assert (queue.paused, queue.paused_by) == (True, client.user.username)


def test_a_queue_with_a_row_can_be_paused_by_name(operator):
    factories.QueueConfigFactory(queue_name="email")

    once = operator.post(url("queueconfig", "add"), {"queue_name": "email"}, follow=True)
    twice = operator.post(url("queueconfig", "add"), {"queue_name": "email"}, follow=True)

    assert messages_of(once) == ["1 queue paused."]
    assert messages_of(twice) == ["1 queue skipped: it was so already."]


def test_a_queue_that_no_job_declares_is_paused_with_a_question(operator):
    response = operator.post(url("queueconfig", "add"), {"queue_name": "emial"}, follow=True)

    assert messages_of(response) == [
        "1 queue paused.",
        "No job is declared for the queue emial. Is that its name?",
    ]


def test_only_how_priorities_age_is_edited_in_a_form(client_of):
    client = client_of("change_queueconfig", "view_queueconfig")
    queue = factories.PausedQueueFactory(queue_name="email")
    values = {"priority_aging": "00:01:30", "paused": "", "queue_name": "other"}

    client.post(url("queueconfig", "change", "email"), values)

    (row,) = QueueConfig.objects.values()
    assert row == {
        "queue_name": "email",
        "paused": True,
        "paused_at": queue.paused_at,
        "paused_by": queue.paused_by,
        "priority_aging": timedelta(seconds=90),
    }


@pytest.mark.parametrize("aging", ["0", "-1", "00:00:00.0005", "365001 00:00:00", "soon"])
def test_an_aging_beyond_the_constraint_is_refused(operator, aging):
    factories.QueueConfigFactory(queue_name="email")

    response = operator.post(url("queueconfig", "change", "email"), {"priority_aging": aging})

    assert response.context["errors"]
    assert QueueConfig.objects.get().priority_aging is None


def test_who_may_only_pause_edits_no_queue(client_of):
    client = client_of("pause_queue", "view_queueconfig")
    factories.QueueConfigFactory(queue_name="email")

    response = client.post(url("queueconfig", "change", "email"), {"priority_aging": "60"})

    assert response.status_code == 403


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "<script>", "a\x00b"])
def test_what_is_no_name_of_a_queue_cannot_be_paused(operator, name):
    response = operator.post(url("queueconfig", "add"), {"queue_name": name})

    assert response.context["errors"]
    assert not QueueConfig.objects.exists()


def test_queues_are_paused_and_resumed_in_the_list(operator):
    factories.QueueConfigFactory(queue_name="email")
    factories.PausedQueueFactory(queue_name="bulk")

    paused = act(operator, "queueconfig", "pause_queues", ["email", "bulk"])
    both = dict(QueueConfig.objects.values_list("pk", "paused"))
    resumed = act(operator, "queueconfig", "resume_queues", ["email", "bulk"])

    assert messages_of(paused) == ["1 queue paused.", "1 queue skipped: it was so already."]
    assert both == {"email": True, "bulk": True}
    assert messages_of(resumed) == ["2 queues resumed."]
    assert not QueueConfig.objects.filter(paused=True).exists()


def test_breakers_are_opened_and_closed_in_the_list(operator):
    factories.BreakerFactory()

    opened = act(operator, "breaker", "open_breakers", ["bank"])
    state = Breaker.objects.get().state
    page = operator.get(url("breaker")).content.decode()
    act(operator, "breaker", "close_breakers", ["bank"])

    assert messages_of(opened) == ["1 breaker: Opened."]
    assert state == "open"
    assert f"Opened by {operator.user.username}." in page
    assert Breaker.objects.get().state == "closed"


def test_who_may_not_pause_is_not_offered_to(viewer):
    assert "Pause a queue" not in viewer.get(url("queueconfig")).content.decode()
    assert viewer.post(url("queueconfig", "add"), {"queue_name": "email"}).status_code == 403


@pytest.mark.parametrize("model", MODELS)
def test_the_index_links_to_every_list(viewer, model):
    assert f'href="{url(model)}"' in viewer.get("/admin/").content.decode()
