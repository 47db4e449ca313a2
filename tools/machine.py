"""Ports and processes of this machine."""

from __future__ import annotations

import random
import socket
import subprocess
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"

# Below the range from which the kernel takes the local ports of outgoing connections. Clients
# that reconnect while a server is down would otherwise take its port, or even connect to
# themselves.
PORTS: Final = range(15000, 32000)


def is_free(port: int) -> bool:
    """Say whether a server could listen on a port of loopback.

    Args:
        port: its number.
    """
    with socket.socket() as probe:
        # As servers do: connections that linger after a stop do not take the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def accepts_connections(port: int) -> bool:
    """Say whether a server listens on a port of loopback. It sees a client that leaves at once.

    Args:
        port: its number.
    """
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_port() -> int:
    """Return a port of loopback that nothing listens on, chosen at random.

    Raises:
        OSError: when there seems to be none.
    """
    for port in random.sample(PORTS, 100):
        if is_free(port):
            return port
    raise OSError(f"Of 100 ports between {PORTS[0]} and {PORTS[-1]} none is free.")


def command_line(pid: int) -> str:
    """Return how a process was started; empty when there is none, or it has ended.

    Args:
        pid: the number of the process.
    """
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").replace("\0", " ")
        except OSError:
            return ""
    command = ["ps", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
