"""``python -m benchmarks [names…] [--quick] [--json FILE]``"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg

# Read when Django is first used, so whatever the caller's own project is.
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"

from . import enqueueing, horizon, listeners, raw, scaling, worker
from .context import Context
from .database import server
from .peers import comparing
from .peers.catalogue import PEERS
from .report import Report

BENCHMARKS: Final[dict[str, Callable[[Context], None]]] = {
    "raw": raw.run,
    "scaling": scaling.run,
    "horizon": horizon.run,
    "enqueue": enqueueing.run,
    "listeners": listeners.run,
    "worker": worker.run,
    "peers": comparing.run,
}
NAMES: Final = [peer.name for peer in PEERS]


def main() -> int:
    """Run the benchmarks that are named, or all."""
    options = _parser().parse_args()
    report = Report()
    with server() as url:
        with psycopg.connect(url) as connection:
            report.server = str(connection.info.server_version)
        context = Context(
            server_url=url,
            is_quick=options.quick,
            report=report,
            peer_python=options.peer_python,
            peers=options.peer or NAMES,
        )
        print(report.machine(), flush=True)
        for name in options.names or BENCHMARKS:
            BENCHMARKS[name](context)
            if options.json:
                report.write(options.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure.")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="default: all")
    parser.add_argument("--quick", action="store_true", help="roughly, in a tenth of the time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--peer", action="append", choices=NAMES, help="compare with this only")
    parser.add_argument("--peer-python", metavar="PATH", help="interpreter for the other queues")
    return parser


if __name__ == "__main__":
    sys.exit(main())
