"""Benchmarks. Run them with ``python -m benchmarks``; see README.md."""

from __future__ import annotations
