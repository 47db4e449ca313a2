"""Exceptions of a project that do all they can to hurt who looks at them."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from datetime import timedelta

from django_pgjobs import Retry, Snooze


class ExitsWhenShown(Exception):
    def __str__(self):
        raise SystemExit(9)


class ShowsMoreThanText(Exception):
    def __str__(self):
        return NoText("no")


class NoText(str):
    __slots__ = ()

    def encode(self, *args):
        raise SystemExit(9)

    isascii = __len__ = encode


class ExitsWhenCompared(type):
    def __eq__(cls, other):
        raise SystemExit(9)

    def __hash__(cls):
        return 1


class Incomparable(Exception, metaclass=ExitsWhenCompared):
    pass


class WithoutCause(Exception):
    @property
    def __cause__(self):
        raise KeyboardInterrupt


class ForgetfulSnooze(Snooze):
    def __init__(self):
        pass


class SnoozeOfSeconds(Snooze):
    def __init__(self):
        super().__init__(timedelta(0))
        self.delay = 5


class RetryInSeconds(Retry):
    def __init__(self):
        super().__init__("soon")
        self.delay = 5


def deep_group():
    error = ValueError("no")
    for _ in range(5_000):
        error = ExceptionGroup("deeper", [error])
    return error


HOSTILE = {
    "it exits when shown": ExitsWhenShown,
    "its message is more than text": ShowsMoreThanText,
    "its class exits when compared": Incomparable,
    "its cause cannot be read": WithoutCause,
    "a snooze that forgets to say for how long": ForgetfulSnooze,
    "a snooze of a number": SnoozeOfSeconds,
    "a retry after a number": RetryInSeconds,
    "a group beyond the depth of the stack": deep_group,
}


@contextmanager
def hostile_log(error):
    """Have the package's log raise ``error`` at each line."""

    class Down(logging.Handler):
        def emit(self, record):
            raise error("the log is down")

    handler, logger = Down(), logging.getLogger("django_pgjobs")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
