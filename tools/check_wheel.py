"""Check that a wheel holds every file of the package, and nothing else.

A build backend that forgets the ``.sql`` files makes a wheel that imports, and then fails.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = "django_pgjobs"
#: What the package cannot be without, whatever the checkout says.
NEEDED = (f"{PACKAGE}/__init__.py", f"{PACKAGE}/py.typed")


def differences(wheel: Path) -> list[str]:
    """Say in sentences how a wheel differs from the package in the checkout.

    Args:
        wheel: the file.
    """
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if not name.endswith("/")}
    wanted = {
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / PACKAGE).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = {name for name in held if name.split("/", 1)[0].endswith(".dist-info")}
    return [
        *(f"{name} is not in the wheel." for name in sorted({*wanted, *NEEDED} - held)),
        *(f"{name} is in the wheel." for name in sorted(held - wanted - metadata)),
    ]


def main() -> int:
    """Check the wheel in the directory on the command line; return the exit status."""
    wheels = list(Path(sys.argv[1]).glob("*.whl"))
    found = [sentence for wheel in wheels for sentence in differences(wheel)]
    if not wheels:
        found = [f"There is no wheel in {sys.argv[1]}."]
    print("\n".join(found) or "The wheel holds the package and nothing else.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
