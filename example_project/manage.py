#!/usr/bin/env python3
"""Django's command line for the example shop."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line


def main() -> None:
    """Run a command of Django."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    if not __package__:
        # Run as a script: what Python put on the path is this directory, not the checkout.
        sys.path[0] = str(Path(__file__).resolve().parent.parent)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
