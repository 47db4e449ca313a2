"""A module imports only what is below it; the layers are in pyproject.toml."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = shutil.which("lint-imports", path=str(Path(sys.executable).parent))


@pytest.mark.process
@pytest.mark.skipif(TOOL is None, reason="import-linter is not installed")
def test_every_module_imports_from_below_only():
    result = subprocess.run(
        [TOOL, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0, result.stdout
