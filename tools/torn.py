"""Damages data folders at random and checks that storage recovers or refuses them: `make torn`.

    python -m tools.torn --rounds 10000 [--seed 0]

A seed determines each round; the first is `--seed`.  A summary counts, for each kind of damaged file, how the
rounds ended.  The exit code is 1 if storage violated an invariant.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping

from barnabas.testing.torn.checker import TornFault
from barnabas.testing.torn.folders import build_folders
from barnabas.testing.torn.torn import Outcome, run_round

PROGRESS_ROUNDS = 1000
# How many violations are printed; all are counted.
SHOWN_FAULTS = 10


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.torn", description="Damage data folders at random."
    )
    parser.add_argument("--rounds", type=int, default=10_000, help="number of rounds (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first round (default 0)")
    options = parser.parse_args()
    folders = build_folders()
    counts: Counter[tuple[str, Outcome]] = Counter()
    faults = 0
    for number in range(options.rounds):
        try:
            report = run_round(options.seed + number, folders)
        except TornFault as fault:
            faults += 1
            if faults <= SHOWN_FAULTS:
                print(f"round {options.seed + number}: {fault}", flush=True)
        else:
            counts.update(report.counts)
            if options.rounds == 1:
                print(report)
        if (number + 1) % PROGRESS_ROUNDS == 0:
            print(f"{number + 1} rounds, {faults} violations", flush=True)
    print_summary(counts)
    print(f"{options.rounds} rounds from seed {options.seed}, {faults} violations")
    return 1 if faults else 0


def print_summary(counts: Mapping[tuple[str, Outcome], int]) -> None:
    """One line for each kind of file; a round with two damaged files counts for both."""
    kinds = sorted({kind for kind, _ in counts})
    width = max(map(len, kinds), default=0)
    print(f"{'damaged':<{width}}" + "".join(f"  {outcome:>15}" for outcome in Outcome))
    for kind in kinds:
        row = "".join(f"  {counts.get((kind, outcome), 0):>15}" for outcome in Outcome)
        print(f"{kind:<{width}}{row}")


if __name__ == "__main__":
    sys.exit(main())
