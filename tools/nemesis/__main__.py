"""Process faults on real clusters: `make nemesis RUNS=10 SECONDS=120 NODES=3`.

    python -m tools.nemesis --runs 10 --seconds 120 --nodes 3 [--seed 1] [--kafka 4.1.0]
        [--mode zookeeper] [--keep] [--planted]

A seed determines the faults and the load of a run; the first is `--seed`.  `--kafka` runs Apache Kafka as the
control.  `--mode zookeeper` runs brokers on an ensemble, with a server of it on each host.  The results are
added to docs/nemesis.md.  Histories, logs and data of runs with anomalies stay in build/nemesis.  The exit
code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import signal
import sys

from tools.nemesis.cluster import System
from tools.nemesis.record import PROJECT, save, version
from tools.nemesis.run import Outcome, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.nemesis", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="number of runs (default 10)")
    parser.add_argument(
        "--seconds", type=int, default=120, help="length of the faults of a run (default 120)"
    )
    parser.add_argument(
        "--nodes", type=int, default=3, choices=[3, 5], help="nodes of the cluster (default 3)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run (default 1)")
    parser.add_argument("--kafka", metavar="VERSION", help="run this version of Apache Kafka instead")
    parser.add_argument(
        "--mode", choices=["kraft", "zookeeper"], default="kraft", help="where metadata is (default kraft)"
    )
    parser.add_argument("--keep", action="store_true", help="keep histories and logs of clean runs too")
    parser.add_argument(
        "--planted", action="store_true", help="lose the end of a log on purpose: the run must find that out"
    )
    parser.add_argument("--no-record", action="store_true", help="leave docs/nemesis.md alone")
    options = parser.parse_args()
    # So that a run that is ended takes its nodes, namespaces and file systems with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    system = System(options.kafka, on_zookeeper=options.mode == "zookeeper")
    tested = version() if options.kafka is None else options.kafka
    clean = True
    for seed in range(options.seed, options.seed + options.runs):
        outcome = Outcome(str(system), seed, options.nodes, options.seconds, version=tested)
        folder = (
            PROJECT / "build" / "nemesis" / f"{str(system).replace(' ', '-').lower()}-{options.nodes}-{seed}"
        )
        run(outcome, system, folder, say, keep=options.keep, planted=options.planted)
        for kind, reason in outcome.unavailable.items():
            say(f"seed {seed}  not available here: {kind}: {reason}")
        say(f"seed {seed}  {'clean' if outcome.is_clean else f'NOT CLEAN: see {folder}'}")
        clean = clean and outcome.is_clean
        if not options.no_record and not options.planted:
            save([outcome])
    if options.planted:
        say("the planted loss was NOT found" if clean else "the planted loss was found")
        return 1 if clean else 0
    return 0 if clean else 1


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
