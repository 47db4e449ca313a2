"""Fixtures live in modules beside this one, named ``fix_*.py``, one for each concern."""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from pathlib import Path

import pytest

pytest_plugins = [
    f"{__package__}.{path.stem}" for path in sorted(Path(__file__).parent.glob("fix_*.py"))
]

#: They share the connections of one server.
MOST_WORKERS = 8


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Return two workers for each core: much of what tests do is to wait for processes."""
    cores = yield
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return cores
    return min(2 * cores, MOST_WORKERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker of pytest-xdist begin with its share of the tests of processes.

    They take seconds, and the others can be stolen when a worker has nothing left.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if item.get_closest_marker("process")]
    short = [item for item in items if not item.get_closest_marker("process")]
    size = math.ceil(len(items) / workers)
    items.clear()
    for number in range(workers):
        items += (share := long[number::workers])
        items += short[: size - len(share)]
        del short[: size - len(share)]
