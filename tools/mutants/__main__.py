"""`make mutants COUNT=100 SEED=1`: plant faults, run the tests, write docs/mutants.md.

    python -m tools.mutants --only client --tests tests/client   # those of one package, by its own tests
    python -m tools.mutants --list                               # only show them

An interrupted run is resumed as long as the sources and the tests are unchanged.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from barnabas.cli.framework.exits import Exit
from tools.mutants import record as records
from tools.mutants.choice import candidates, choose
from tools.mutants.scratch import Scratch, end_leftovers, tree_hash
from tools.mutants.source import Mutant
from tools.mutants.tracing import Trace, trace_tree
from tools.mutants.trial import try_mutant

PROJECT = Path(__file__).resolve().parents[2]
WORK = PROJECT / "build" / "mutants"
PAGE = PROJECT / "docs" / "mutants.md"
DATA = PROJECT / "docs" / "mutants.json"


def main() -> int:
    options = _parser().parse_args()
    # Like Ctrl+C: running tests are ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    chosen = choose(candidates(PROJECT), PROJECT, options.count, options.seed)
    if options.only:
        chosen = [mutant for mutant in chosen if mutant.package in options.only]
    chosen = chosen[: options.first or None]
    if options.list:
        for mutant in chosen:
            text = (PROJECT / mutant.path).read_text("utf-8")
            print(f"{mutant.path}:{mutant.line} ({mutant.operator})\n{mutant.diff(text)}")
        return 0
    tree = tree_hash(PROJECT)
    WORK.mkdir(parents=True, exist_ok=True)
    copies = [Scratch(PROJECT, WORK / f"tree-{number}") for number in range(options.jobs)]
    kept = WORK / f"trace-{tree}-{options.tests.replace('/', '-')}.json"
    trace = trace_tree(copies[0], kept, options.jobs, options.tests)
    record = records.Record(
        _commit(), tree, options.seed, options.count, len(trace.tests), sorted(trace.failing)
    )
    Campaign(record, WORK / f"results-{options.seed}.json", trace, only_covering=options.only_covering).run(
        chosen, copies
    )
    print(f"{records.percent(record.results)} killed")
    if not (options.only or options.first or options.only_covering or options.tests != "tests"):
        records.save(DATA, record)
        PAGE.write_text(records.page(record), "utf-8")
    return 0


class Campaign:
    """Tries mutants in several copies at once, and saves each result."""

    def __init__(self, record: records.Record, path: Path, trace: Trace, *, only_covering: bool) -> None:
        self._record = record
        self._path = path
        self._trace = trace
        self._only_covering = only_covering
        self._lock = Lock()
        self._is_over = False

    def run(self, chosen: list[Mutant], copies: list[Scratch]) -> None:
        earlier = records.load(self._path)
        known = {}
        if earlier is not None and earlier.is_same_campaign(self._record):
            known = {result.key: result for result in earlier.results}
        self._record.results += [known[mutant.key] for mutant in chosen if mutant.key in known]
        free: SimpleQueue[Scratch] = SimpleQueue()
        for copy in copies:
            free.put(copy)

        def attempt(mutant: Mutant) -> None:
            copy = free.get()
            try:
                self._try(mutant, copy)
            finally:
                free.put(copy)

        pool = ThreadPoolExecutor(len(copies))
        try:
            for _ in pool.map(attempt, [mutant for mutant in chosen if mutant.key not in known]):
                pass
        finally:
            # After Ctrl+C or an error, running trials end without a result.
            self._is_over = True
            for copy in copies:
                end_leftovers(copy.folder)
            pool.shutdown(cancel_futures=True)

    def _try(self, mutant: Mutant, copy: Scratch) -> None:
        text = (copy.folder / mutant.path).read_text("utf-8")
        verdict = try_mutant(mutant, self._trace, copy, only_covering=self._only_covering)
        with self._lock:
            if self._is_over:
                return
            self._record.results.append(records.result_of(mutant, text, verdict))
            records.save(self._path, self._record)
            by = f" by {verdict.by}" if verdict.by else ""
            print(f"{mutant.path}:{mutant.line} ({mutant.operator}): {verdict.outcome}{by}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Plant random faults.")
    parser.add_argument("--count", type=int, default=100, help="number of mutants (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel trials (default 2)")
    parser.add_argument("--only", action="append", default=[], help="only mutants of this package")
    parser.add_argument("--first", type=int, default=0, help="only the first N mutants")
    parser.add_argument("--tests", default="tests", help="only the tests in this folder")
    parser.add_argument("--only-covering", action="store_true", help="only the tests that run the line")
    parser.add_argument("--list", action="store_true", help="show the mutants, and try none")
    return parser


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty=, with uncommitted changes", "--abbrev=12"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
