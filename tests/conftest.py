"""Fixtures live in one module for each concern, beside this file."""

from __future__ import annotations

from importlib.util import find_spec

pytest_plugins = [
    name for name in ("tests.fix_database", "tests.fix_workers") if find_spec(name) is not None
]
