"""Run the shop from beginning to end, print what happened, and say whether all of it is right.

    python -m example_project.demo

Exits with 0 only if every statement under "Checks" holds. Everything it starts it stops again,
and the database that it makes it drops.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import django

from .databases import scratch_database, server
from .mail import mail_catcher
from .processes import stop_on_terminate, use


def main() -> int:
    """Run the demo and return its exit status."""
    stop_on_terminate()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="shop-") as logs,
            server() as url,
            scratch_database(url) as database,
            mail_catcher() as catcher,
        ):
            use(database, catcher.port)
            django.setup()
            from .story import play  # noqa: PLC0415 - needs the app registry

            return 0 if play(catcher, Path(logs)) else 1
    except KeyboardInterrupt:
        print("\nInterrupted; everything has been stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
