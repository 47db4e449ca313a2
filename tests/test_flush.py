"""What is between two tests that commit."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db.models import Model

from tests import factories


def counts() -> dict[type[Model], int]:
    """Return how many rows each managed table has, of those that have any."""
    found = {model: model._base_manager.count() for model in managed()}
    return {model: count for model, count in found.items() if count}


def managed() -> list[type[Model]]:
    """Return the models whose tables belong to Django."""
    return [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]


def test_nothing_of_a_test_is_left_for_the_next_one(transactional_db):
    before = counts()
    user = User.objects.create(username="somebody")
    user.groups.add(Group.objects.create(name="some"))
    user.user_permissions.add(Permission.objects.first())
    factories.pending_job()
    factories.CronScheduleFactory()

    call_command("flush", interactive=False)

    left = counts()
    assert left == {model: before[model] for model in (ContentType, Permission)}
