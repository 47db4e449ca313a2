"""Where a thread is just now."""

from __future__ import annotations

import sys
import traceback


def stack_of_thread(ident: int | None) -> str:
    """Return where a thread is, as a traceback; empty if it has ended or not begun."""
    frame = sys._current_frames().get(ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else ""
