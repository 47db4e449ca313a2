"""``python -m tests.chaos``"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.faults import schedule
from tests.chaos.run import run_chaos, run_kills


def main(arguments: Sequence[str] | None = None) -> int:
    """Run chaos from a seed, or kill workers; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the faults and do nothing")
    parser.add_argument("--kill", type=int, metavar="JOBS", help="only kill workers")
    options = parser.parse_args(arguments)
    faults = schedule(options.seed, options.seconds)
    if options.show:
        print(*faults, sep="\n")
        return 0
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="pgjobs-chaos-"))
    if options.kill:
        print(f"{options.kill} jobs, a kill every second for {options.seconds} s")
        verdict = run_kills(folder, jobs=options.kill, kills=options.seconds)
    else:
        print(f"seed {options.seed}, {options.seconds} s")
        verdict = run_chaos(folder, faults, seed=options.seed, seconds=options.seconds)
    for name, figure in verdict.figures.items():
        print(f"  {name}: {figure}")
    for problem in verdict.problems:
        print(f"BROKEN: {problem}")
    print(f"{len(verdict.problems)} promises broken; logs and ledger in {folder}")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
