"""The tree of exceptions is the one that the documentation draws."""

from __future__ import annotations

import inspect
import pickle

import pytest

from django_pgjobs import exceptions, outcomes
from django_pgjobs.exceptions import PgJobsError

CLASSES = [
    value
    for value in vars(exceptions).values()
    if inspect.isclass(value) and value.__module__ == exceptions.__name__
]


def drawn():
    """Return each class of the drawing with its base."""
    path, tree = [], {}
    for line in exceptions.__doc__.splitlines():
        if "PgJobsError" in line or "─" in line:
            indent = len(line) - len(line.lstrip(" │├└─"))
            name = line.lstrip(" │├└─").split()[0]
            path = [(depth, known) for depth, known in path if depth < indent]
            tree[name] = path[-1][1] if path else "Exception"
            path.append((indent, name))
    return tree


def test_the_drawing_shows_every_class_under_a_base_of_it():
    tree = drawn()

    assert sorted(tree) == sorted(kind.__name__ for kind in CLASSES)
    for kind in CLASSES:
        assert tree[kind.__name__] in {base.__name__ for base in kind.__mro__[1:]}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_ours_and_says_when_it_is_raised(kind):
    assert issubclass(kind, PgJobsError)
    assert kind.__doc__


@pytest.mark.parametrize("kind", [outcomes.Retry, outcomes.Snooze, outcomes.Cancel])
def test_an_outcome_is_no_error_of_ours(kind):
    assert issubclass(kind, Exception)
    assert not issubclass(kind, PgJobsError)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.InvalidPayload("no", argument="order['lines']"),
        exceptions.PayloadTooLarge("no", size=2, limit=1),
        exceptions.LeaseLost("no", job_id=1, fence_token=2),
        exceptions.PermissionRequired("no", permission="django_pgjobs.cancel_job"),
        exceptions.JobTimeout(),
        outcomes.Retry("later"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_crosses_processes(error):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
