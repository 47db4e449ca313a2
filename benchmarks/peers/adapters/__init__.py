"""One program for each queue, run in that queue's own environment. See driving.py."""

from __future__ import annotations
