"""Enqueues one job after another, each in a transaction of its own, in a process of its own.

    python -m benchmarks.producer

Says ``ready``. For each line of its input, ``true 1.5``, it enqueues for so many seconds, with
``PGJOBS["LISTEN"]`` true or false, and says how many jobs that were.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

import django
from django.conf import settings
from django.test import override_settings


def main() -> None:
    """Run the process."""
    django.setup()
    print("ready", flush=True)
    for line in sys.stdin:
        listen, seconds = line.split()
        with override_settings(PGJOBS={**settings.PGJOBS, "LISTEN": json.loads(listen)}):
            print(_enqueue(float(seconds)), flush=True)


def _enqueue(seconds: float) -> int:
    # Once django.setup() has been called.
    from .jobs import nothing  # noqa: PLC0415

    until, count = perf_counter() + seconds, 0
    while perf_counter() < until:
        nothing.enqueue()
        count += 1
    return count


if __name__ == "__main__":
    main()
