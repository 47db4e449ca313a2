"""Which queue comes next."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from django_pgjobs.worker import queues as queues_module
from django_pgjobs.worker.queues import EMPTY_FOR, QueueOrder, parse_queues, undeclared


def serve(order: QueueOrder, turns: int, jobs: int = 1, empty: frozenset[str] = frozenset()):
    """Return how many jobs each queue got, when all but ``empty`` have work."""
    served: Counter[str] = Counter()
    for _ in range(turns):
        for queue in order.candidates():
            if queue in empty:
                order.note_empty(queue)
                continue
            order.charge(queue, jobs)
            served[queue] += jobs
            break
    return served


def test_queues_are_served_in_proportion_to_their_weights():
    served = serve(QueueOrder({"critical": 5, "default": 3, "bulk": 2}), turns=1000)

    assert served == {"critical": 500, "default": 300, "bulk": 200}


def test_no_queue_waits_longer_than_a_round():
    order = QueueOrder({"heavy": 1000, "light": 1})

    served = serve(order, turns=1002)

    assert served["light"] >= 1


def test_the_turns_of_an_empty_queue_go_to_the_others():
    order = QueueOrder({"a": 1, "b": 1})

    assert serve(order, turns=10, empty=frozenset({"a"})) == {"b": 10}


def test_a_preferred_queue_is_tried_first_once():
    order = QueueOrder({"a": 1, "b": 1, "c": 1})

    order.prefer("c")

    assert [order.candidates()[0] for _ in range(2)] == ["c", "a"]


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves: a list of one time in seconds."""
    now = [1000.0]
    monkeypatch.setattr(queues_module, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("is_strict", [False, True])
def test_an_empty_queue_is_tried_after_the_others_for_a_moment(clock, is_strict):
    order = QueueOrder({"a": 1, "b": 1}, is_strict=is_strict)
    assert serve(order, turns=1, empty=frozenset({"a"})) == {"b": 1}

    assert order.candidates() == ["b", "a"]
    clock[0] += EMPTY_FOR
    assert order.candidates() == ["a", "b"]


def test_a_queue_that_was_empty_has_saved_up_no_turns(clock):
    order = QueueOrder({"a": 1, "b": 1})
    serve(order, turns=1000, empty=frozenset({"a"}))
    serve(order, turns=1000)

    clock[0] += EMPTY_FOR

    assert serve(order, turns=100) == {"a": 50, "b": 50}


def test_a_queue_without_room_is_as_near_as_before(clock):
    order = QueueOrder({"a": 1, "b": 1})

    order.pass_over("a")

    assert order.candidates() == ["a", "b"]


@pytest.mark.parametrize("queue", ["", "unknown"])
def test_only_what_is_served_can_be_preferred(queue):
    order = QueueOrder({"a": 1, "b": 1})

    order.prefer(queue)

    assert order.candidates() == ["a", "b"]


def test_strict_order_knows_no_preference():
    order = QueueOrder({"a": 1, "b": 1}, is_strict=True)

    order.prefer("b")

    assert order.candidates() == ["a", "b"]


def test_in_strict_order_a_later_queue_waits_for_the_earlier_ones():
    order = QueueOrder({"a": 1, "b": 100}, is_strict=True)

    assert serve(order, turns=10) == {"a": 10}
    assert serve(order, turns=10, empty=frozenset({"a"})) == {"b": 10}


def test_a_queue_added_later_does_not_catch_up():
    order = QueueOrder({"a": 1})
    serve(order, turns=1000)

    order.add(["b", "a"])

    assert serve(order, turns=100) == {"a": 50, "b": 50}


def test_weights_are_parsed():
    weights = parse_queues("critical=5, default=3,bulk")

    assert weights == {"critical": 5, "default": 3, "bulk": 1}
    assert list(weights) == ["critical", "default", "bulk"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,a", "The queue 'a' is named twice in 'a,a'."),
        ("a=0", "The weight of queue 'a' must be a whole number from 1 to 1000, not '0'."),
        ("a=x", "The weight of queue 'a' must be a whole number from 1 to 1000, not 'x'."),
        ("a=1001", "The weight of queue 'a' must be a whole number from 1 to 1000, not '1001'."),
        ("a=", "The weight of queue 'a' must be a whole number from 1 to 1000, not ''."),
        (
            "",
            "queue must be 1 to 63 letters, digits, '_', '.' or '-', and begin with a letter or "
            "digit, not ''.",
        ),
    ],
)
def test_a_wrong_list_of_queues_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_queues(text)


def test_queues_that_no_job_declares_are_known():
    assert undeclared(["bulk", "nope", "mail"], {"mail", "bulk"}) == ["nope"]
