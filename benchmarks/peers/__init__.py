"""Other job queues, measured like ours."""

from __future__ import annotations
