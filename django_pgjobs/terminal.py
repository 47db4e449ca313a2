"""Log lines on the terminal, where the project has not said where they go."""

from __future__ import annotations

import logging


def log_to_stderr(label: str = "") -> None:
    """Show our log lines on the terminal if the project has not said where they go.

    Args:
        label: put before each line, to tell processes apart.
    """
    logger = logging.getLogger("django_pgjobs")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        prefix = f"{label} " if label else ""
        handler.setFormatter(logging.Formatter(f"{prefix}%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
