"""Start a fresh interpreter that calls a function of ours.

Not by fork: a copy of a process full of threads has none of them but all their locks, one of
which may never be released. Not from a server that forks either (multiprocessing's forkserver):
the project's own code may have started threads when it was imported there. And not by
multiprocessing's spawn: it imports the main module again, adds a process of its own, and its
children either may have none themselves or are waited for at exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from django.core.exceptions import ImproperlyConfigured


def start_interpreter(
    function: str, *args: int | str, label: str, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start Python with this process's options, path and environment, and call a function.

    Args:
        function: ``package.module:name``.
        args: of the function.
        label: the first thing that a list of processes shows of it.
        pass_fds: file descriptors that it inherits, under the same numbers.

    Raises:
        ImproperlyConfigured: it could not find the settings.
        OSError: it could not be started.
    """
    if "DJANGO_SETTINGS_MODULE" not in os.environ:
        raise ImproperlyConfigured(
            "Each process of a worker reads the settings anew, from the module that the "
            "environment variable DJANGO_SETTINGS_MODULE names. It is not set."
        )
    module, _, name = function.partition(":")
    code = (
        f"{label!r}; import sys; sys.path[:] = {sys.path!r}; "
        f"from {module} import {name}; {name}(*{args!r})"
    )
    # What multiprocessing uses too: -W, -X, -O, -I and their like.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=pass_fds,
        # Killed together with what it has started.
        process_group=0,
    )
