"""Users of the admin, and jobs that the process knows."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_pgjobs.definitions.definition import JobDefinition
from django_pgjobs.definitions.registry import registry

MODELS = (
    "activejob",
    "completedjob",
    "jobattempt",
    "breaker",
    "queueconfig",
    "tenantconfig",
    "cronschedule",
    "jobworker",
)
VIEW_ALL = tuple(f"view_{model}" for model in MODELS)


def url(model, page="changelist", *args):
    """Return the address of a page of the admin."""
    return reverse(f"admin:django_pgjobs_{model}_{page}", args=args)


def messages_of(response):
    """Return the texts of the messages that a page shows."""
    return [str(message) for message in response.context["messages"]]


def noop(number: int = 0) -> None:
    """Do nothing."""


@pytest.fixture
def client_of(db):
    """Return a function that logs in a member of staff with some of our permissions."""

    def client_of(*permissions):
        user = User.objects.create_user(f"user {User.objects.count()}", is_staff=True)
        rights = Permission.objects.filter(content_type__app_label="django_pgjobs")
        user.user_permissions.set(rights.filter(codename__in=permissions))
        client = Client()
        client.force_login(user)
        client.user = user
        return client

    return client_of


@pytest.fixture
def viewer(client_of):
    """Return a client that may look at everything but payloads."""
    return client_of(*VIEW_ALL)


@pytest.fixture
def operator(client_of):
    """Return a client that may do everything."""
    return client_of(
        *VIEW_ALL,
        "view_payload",
        "cancel_job",
        "redrive_job",
        "pause_queue",
        "pause_schedule",
        "run_schedule",
        "manage_breaker",
        *(f"{verb}_{model}" for verb in ("add", "change", "delete") for model in MODELS),
    )


@pytest.fixture(autouse=True)
def definitions():
    """Register two jobs and no others, in the queues default and email."""
    before = dict(registry._definitions)
    registry._definitions.clear()
    registry.add(JobDefinition(name="tests.noop", function=noop))
    registry.add(JobDefinition(name="tests.mail", function=noop, queue="email"))
    yield
    registry._definitions.clear()
    registry._definitions.update(before)
