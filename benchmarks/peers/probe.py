"""What the handlers of all queues have in common. Standard library only."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

#: Names the file in which handlers note their waits.
VARIABLE: Final = "BENCHMARK_WAITS"


def note_start(sent_at: float) -> None:
    """Append to the file how long a job waited, in seconds.

    Args:
        sent_at: when it was enqueued, on the monotonic clock, which on Linux is the same
            in all processes.
    """
    waited = time.monotonic() - sent_at
    # One short append: whole lines, also from several processes.
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(f"{waited:.6f}\n")


def read_waits(path: Path) -> list[float]:
    """Return the waits noted so far, in seconds."""
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []
