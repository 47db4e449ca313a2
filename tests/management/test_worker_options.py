"""What the worker's command refuses. What it does is in tests/acceptance."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command


def test_a_strict_order_needs_queues():
    with pytest.raises(CommandError, match="--strict keeps to the order of --queues"):
        call_command("pgjobs_worker", strict=True)
