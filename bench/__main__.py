"""`make bench [ROWS="name …"]`: measure rows and write docs/benchmarks.md.

Figures of rows that were not run this time are kept from docs/benchmarks.json, with the commit they were
measured at.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from barnabas.batch import engine
from bench.registry import Result, Row, load_rows, measure

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "benchmarks.md"
FIGURES = PROJECT / "docs" / "benchmarks.json"
NOTES = PROJECT / "docs" / "benchmarks-notes.md"

INTRODUCTION = """# Benchmarks

Written by `make bench` from `docs/benchmarks.json`; do not edit. Each row is one file in `bench/rows/`.
Contenders take turns within a round; a value is the median over the rounds with its quartiles, and a ratio
is the median of the rounds' own ratios (first contender ÷ the other). The machines are small and shared:
differences below a third are noise.
"""


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


def human(value: float) -> str:
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def verdict(of: Row, found: dict[str, Any]) -> str:
    """Goal and floor in words, and where we stand."""
    if of.against is None:
        return ""
    ratio = next((c["ratio"] for c in found["contenders"] if c["name"] == of.against), None)
    if ratio is None:
        return f"\nNot measured against {of.against} on this machine.\n"

    def reached(bound: float) -> bool:
        return bool(ratio >= bound if of.higher_is_better else ratio <= bound)

    sign = "≥" if of.higher_is_better else "≤"
    parts = []
    for word, bound in (("goal", of.goal), ("floor", of.floor)):
        if bound is not None:
            parts.append(
                f"{word} {sign} {bound:g} × {of.against}: {'reached' if reached(bound) else 'MISSED'}"
            )
    return f"\n{'; '.join(parts)} (measured {ratio:.3g} ×).\n"


def section(of: Row, found: dict[str, Any]) -> str:
    lines = [f"## {of.title}", ""]
    lines.append(f"`{of.name}`, {of.unit}; {'higher' if of.higher_is_better else 'lower'} is better.")
    lines += ["", "| | median | quartiles | first ÷ this |", "|---|---:|---:|---:|"]
    for contender in found["contenders"]:
        low, high = contender["quartiles"]
        median, ratio = human(contender["median"]), f"{contender['ratio']:.3g}"
        lines.append(f"| {contender['name']} | {median} | {human(low)} – {human(high)} | {ratio} |")
    footer = f"\n{found['date']}, commit `{found['commit']}`, {found['rounds']} rounds, {found['machine']}."
    return "\n".join(lines) + "\n" + verdict(of, found) + footer + "\n"


def write_page(rows: dict[str, Row], known: dict[str, Any]) -> None:
    sections = [section(rows[name], known[name]) for name in rows if name in known]
    notes = NOTES.read_text() if NOTES.exists() else ""
    PAGE.write_text("\n".join([INTRODUCTION, *sections, notes]).rstrip() + "\n")


def main() -> int:
    rows = load_rows()
    wanted = sys.argv[1:] or list(rows)
    unknown = [name for name in wanted if name not in rows]
    if unknown:
        print(f"no such row: {', '.join(unknown)}. Rows: {', '.join(rows)}", file=sys.stderr)
        return 2
    known: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in wanted:
        result = measure(rows[name], lambda line: print(line, file=sys.stderr))
        known[name] = figures(result)
        print(section(rows[name], known[name]))
        FIGURES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    write_page(rows, known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
