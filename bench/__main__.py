"""`make bench [ROWS="name …"]`: measure rows and write docs/benchmarks.md.

A name that ends with * matches all rows with that prefix; `make bench-spark` names those of Spark, which are
not run otherwise.  Results of rows that were not run this time are kept from docs/benchmarks.json, with the
commit of their measurement.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from barnabas.batch import engine
from bench.page import section, write_page
from bench.registry import Result, Row, RunContext, families, load_rows, measure

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "benchmarks.md"
FIGURES = PROJECT / "docs" / "benchmarks.json"
NOTES = PROJECT / "docs" / "benchmarks-notes.md"


def commit() -> str:
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> str:
    state = engine.engine_state().state
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, engine {state}"


def figures(result: Result) -> dict[str, Any]:
    contenders = [
        {
            "name": name,
            "median": result.median(name),
            "quartiles": result.quartiles(name),
            "ratio": result.ratio(name),
            "ratio_quartiles": result.ratio_quartiles(name),
        }
        for name in result.values
    ]
    return {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "rounds": len(next(iter(result.values.values()))),
        "contenders": contenders,
    }


def chosen(rows: dict[str, Row], patterns: list[str]) -> list[Row]:
    """The requested rows; without names, all rows that are not `only_by_name`."""
    if not patterns:
        return [row for row in rows.values() if not row.only_by_name]
    return [row for name, row in rows.items() if any(fnmatchcase(name, pattern) for pattern in patterns)]


def main() -> int:
    rows = load_rows()
    patterns = sys.argv[1:]
    unknown = [name for name in patterns if not any(fnmatchcase(row, name) for row in rows)]
    if unknown:
        print(f"no such row: {', '.join(unknown)}. Rows: {', '.join(rows)}", file=sys.stderr)
        return 2
    selected = chosen(rows, patterns)
    # Like Ctrl+C: servers that were started are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    with RunContext() as context:
        for family in families(selected):
            for result in measure(family, context, lambda line: print(line, file=sys.stderr)):
                name = result.row.name
                known[name] = figures(result)
                print(section(result.row, known[name]), flush=True)
            FIGURES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
            write_page(PAGE, NOTES, rows, known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
