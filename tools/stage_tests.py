"""Copy the checkout, without the package, to where the installed wheel is tested.

Next to the package's source, ``import django_pgjobs`` would find that instead of the wheel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"django_pgjobs", "build", "dist", "htmlcov"}


def stage(target: Path) -> None:
    """Copy everything that is neither hidden nor the package.

    Args:
        target: an empty or missing directory.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in CHECKOUT.iterdir():
        if entry.name.startswith(".") or entry.name in LEFT_OUT:
            continue
        if entry.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build")
            shutil.copytree(entry, target / entry.name, ignore=ignored)
        else:
            shutil.copy2(entry, target)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
