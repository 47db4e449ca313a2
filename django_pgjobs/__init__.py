"""A production job queue for Django on the PostgreSQL it already has."""

from __future__ import annotations

__version__ = "0.1.0"
