"""Operations: permission, then act, and an answer for every id."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from django_pgjobs.administration import operations
from django_pgjobs.exceptions import OperationError, PermissionRequired
from django_pgjobs.models import ActiveJob, CompletedJob, QueueConfig
from tests import factories

pytestmark = pytest.mark.django_db

ACTS = {
    operations.CANCEL_JOB: lambda actor: operations.cancel(actor, [1]),
    operations.REDRIVE_JOB: lambda actor: operations.redrive(actor, [1]),
    operations.PAUSE_QUEUE: lambda actor: operations.pause(actor, "default"),
}


@pytest.fixture
def user():
    return get_user_model().objects.create_user("ada", is_staff=True)


def allow(user, permission):
    user.user_permissions.add(Permission.objects.get(codename=permission.partition(".")[2]))
    return get_user_model().objects.get(pk=user.pk)


@pytest.mark.parametrize("permission", ACTS)
def test_an_act_needs_its_own_permission(user, permission):
    others = [other for other in ACTS if other != permission]
    for other in others:
        user = allow(user, other)

    with pytest.raises(PermissionRequired) as refused:
        ACTS[permission](user)

    assert refused.value.permission == permission
    assert str(refused.value) == f"ada needs the permission {permission}."


@pytest.mark.parametrize("permission", ACTS)
def test_with_the_permission_it_acts(user, permission):
    ACTS[permission](allow(user, permission))


def test_resuming_needs_the_permission_to_pause(user):
    with pytest.raises(PermissionRequired):
        operations.resume(user, "default")


def test_cancelling_answers_for_every_id():
    waiting, running = factories.pending_job(), factories.running_job()
    finished = factories.completed_job()

    done = operations.cancel(None, [waiting.id, running.id, finished.id, 2**62], reason="test")

    assert (done.cancelled, done.requested) == ([waiting.id], [running.id])
    assert done.skipped == [finished.id, 2**62]
    assert CompletedJob.objects.get(pk=waiting.id).error_message == "Cancelled by the system: test"
    assert ActiveJob.objects.get(pk=running.id).cancel_requested


def test_redriving_answers_for_every_id():
    dead, completed = factories.dead_job(), factories.completed_job()
    taken = factories.dead_job(idempotency_key="k")
    factories.pending_job(idempotency_key="k")

    done = operations.redrive(None, [dead.id, completed.id, taken.id, 2**62])

    assert (done.redriven, done.conflicting) == ([dead.id], [taken.id])
    assert done.skipped == [completed.id, 2**62]


@pytest.mark.parametrize("act", [operations.cancel, operations.redrive])
@pytest.mark.parametrize("bad", ["abc", None, 0, -1, 2**63, 1.5, True])
def test_what_is_no_id_is_refused_before_any_query(act, bad, django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(OperationError) as refused:
        act(None, [2, bad])

    assert str(refused.value) == f"The id of a job is a whole number above zero, not {bad!r}."


def test_pausing_twice_changes_nothing(user):
    user = allow(user, operations.PAUSE_QUEUE)

    assert operations.pause(user, "mail")
    first = QueueConfig.objects.get(pk="mail")
    assert not operations.pause(None, "mail")

    assert QueueConfig.objects.get(pk="mail").paused_at == first.paused_at
    assert first.paused_by == "ada"
    assert operations.resume(user, "mail")
    assert not operations.resume(user, "mail")


def test_what_is_no_queue_is_refused():
    with pytest.raises(OperationError, match="queue must be 1 to 63 letters"):
        operations.pause(None, "no such queue!")
