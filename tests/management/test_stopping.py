"""The end of a process."""

from __future__ import annotations

import subprocess
import sys

HANGING = """
from datetime import timedelta
from threading import Event
from django_pgjobs.management.stopping import run_aside

run_aside(Event().wait, is_stopping=lambda: True, patience=timedelta(seconds=0.2))
"""


def test_work_that_does_not_stop_is_given_up():
    process = subprocess.run([sys.executable, "-c", HANGING], timeout=60, check=False)

    assert process.returncode == 3


def test_work_is_waited_for_until_it_is_told_to_stop():
    working = HANGING.replace("Event().wait", "lambda: Event().wait(1)").replace("True", "False")

    process = subprocess.run([sys.executable, "-c", working], timeout=60, check=False)

    assert process.returncode == 0
