"""`make mutants COUNT=100 SEED=1`: plant faults, run the tests, write docs/mutants.md.

    python -m tools.mutants --only client --tests tests/client   # 100 of one package, by its own tests
    python -m tools.mutants --list                               # only show them

An interrupted run is resumed as long as the sources and the tests are unchanged.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from barnabas.cli.framework.exits import Exit
from tools.mutants import record as records
from tools.mutants.choice import candidates, choose
from tools.mutants.imports import read_imports
from tools.mutants.scratch import Scratch, end_leftovers, module_hashes, tree_hash
from tools.mutants.source import Mutant
from tools.mutants.tracing import trace_tree
from tools.mutants.trial import ALL, EXTENTS, UNLIMITED_S, Reach, Verdict, try_mutant

PROJECT = Path(__file__).resolve().parents[2]
WORK = PROJECT / "build" / "mutants"
PAGE = PROJECT / "docs" / "mutants.md"
DATA = PROJECT / "docs" / "mutants.json"
REASONS = Path(__file__).with_name("survivors.toml")


def main() -> int:
    options = _parser().parse_args()
    if options.page:
        _write_page(records.load(DATA) or sys.exit(f"{DATA} does not exist"))
        return 0
    # Like Ctrl+C: running tests are ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    chosen = choose(candidates(PROJECT, options.only), PROJECT, options.count, options.seed)
    chosen = chosen[: options.first or None]
    if options.list:
        for mutant in chosen:
            text = (PROJECT / mutant.path).read_text("utf-8")
            print(f"{mutant.path}:{mutant.line} ({mutant.operator})\n{mutant.diff(text)}")
        return 0
    tree = tree_hash(PROJECT)
    WORK.mkdir(parents=True, exist_ok=True)
    copies = [Scratch(PROJECT, WORK / f"tree-{number}") for number in range(options.jobs)]
    reach = _reach(options, copies[0], tree)
    record = records.Record(
        _commit(),
        tree,
        options.seed,
        options.count,
        len(reach.tests),
        sorted(reach.failing),
        options.until,
        options.stage_limit,
    )
    path = WORK / f"results-{options.seed}.json"
    attempt = partial(try_mutant, extent=options.until, also=options.also, stage_limit_s=options.stage_limit)
    Campaign(record, path, reach, attempt, retries_survivors=bool(options.also)).run(chosen, copies)
    print(f"{records.percent(record.results)} killed")
    if not (options.only or options.first or options.tests != "tests"):
        records.save(DATA, record)
        _write_page(record)
    return 0


def _reach(options: argparse.Namespace, copy: Scratch, tree: str) -> Reach:
    if options.untraced:
        return read_imports(PROJECT, copy, WORK / f"collected-{tree}.json")
    kept = WORK / f"trace-{options.tests.replace('/', '-')}.json"
    return trace_tree(copy, kept, options.jobs, options.tests, module_hashes(PROJECT))


def _write_page(record: records.Record) -> None:
    PAGE.write_text(records.page(record, records.load_reasons(REASONS)), "utf-8")


class Campaign:
    """Tries mutants in several copies at once, and saves each result."""

    def __init__(
        self,
        record: records.Record,
        path: Path,
        reach: Reach,
        attempt: Callable[[Mutant, Reach, Scratch], Verdict],
        *,
        retries_survivors: bool,
    ) -> None:
        self._record = record
        self._path = path
        self._reach = reach
        self._attempt = attempt
        self._retries_survivors = retries_survivors
        self._lock = Lock()
        self._is_over = False

    def run(self, chosen: list[Mutant], copies: list[Scratch]) -> None:
        earlier = records.load(self._path)
        known: dict[str, records.Result] = {}
        if earlier is not None and earlier.is_same_campaign(self._record):
            known = {result.key: result for result in earlier.results if self._is_final(result, earlier)}
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

    def _is_final(self, result: records.Result, earlier: records.Record) -> bool:
        """A survivor is tried again if more tests are to be run now."""
        has_been_run = EXTENTS.index(earlier.extent) >= EXTENTS.index(self._record.extent)
        return result.is_killed or (has_been_run and not self._retries_survivors)

    def _try(self, mutant: Mutant, copy: Scratch) -> None:
        text = (copy.folder / mutant.path).read_text("utf-8")
        verdict = self._attempt(mutant, self._reach, copy)
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
    parser.add_argument("--only", action="append", default=[], help="draw from this package alone")
    parser.add_argument("--first", type=int, default=0, help="only the first N mutants")
    parser.add_argument("--tests", default="tests", help="only the tests in this folder")
    parser.add_argument(
        "--until", choices=EXTENTS, default=ALL, help="the tests to run before a mutant counts as survived"
    )
    parser.add_argument(
        "--untraced", action="store_true", help="choose the tests by their imports, without tracing them all"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        help="try survivors again with the tests of this folder or module",
    )
    parser.add_argument(
        "--stage-limit", type=float, default=UNLIMITED_S, help="seconds for the tests of a stage of a mutant"
    )
    parser.add_argument("--page", action="store_true", help="only write docs/mutants.md again")
    parser.add_argument("--list", action="store_true", help="show the mutants, and try none")
    return parser


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty=, with uncommitted changes", "--abbrev=12"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
