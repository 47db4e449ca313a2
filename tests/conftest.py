"""Fixtures live in modules beside this one, named ``fix_*.py``, one for each concern."""

from __future__ import annotations

from pathlib import Path

pytest_plugins = [
    f"{__package__}.{path.stem}" for path in sorted(Path(__file__).parent.glob("fix_*.py"))
]
