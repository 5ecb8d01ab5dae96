"""The page of results: a table of all rows with a goal, then each row with its quartiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.registry import Row

INTRODUCTION = """# Benchmarks

Written by `make bench` from `docs/benchmarks.json`; do not edit. Rows are the files in `bench/rows/`.
Contenders take turns within a round; a value is the median over the rounds with its quartiles, and a ratio
is the median of the rounds' own ratios (first contender ÷ the other). The machines are small and shared:
differences below a third are noise.

Brokers run as shipped, Apache Kafka with its own start script's settings of the Java machine, both warmed up
first and with one and the same file of settings. Clients are raw sockets with requests made beforehand, so
that the broker is what is measured. After every round the acknowledged records are counted in the broker and
the last ones read back; what is fetched is hashed; before the first round a damaged batch and a damaged
record must have been refused.

Rows of Spark are measured by `make bench-spark`: one session on two cores with both connectors in it, after
their rows were compared; what is counted or written must add up in every round.
"""


def human(value: float) -> str:
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def sign(of: Row) -> str:
    return "≥" if of.higher_is_better else "≤"


def is_reached(of: Row, value: float, bound: float) -> bool:
    return value >= bound if of.higher_is_better else value <= bound


def ratio_of(of: Row, found: dict[str, Any]) -> float | None:
    return next((float(c["ratio"]) for c in found["contenders"] if c["name"] == of.against), None)


def median_of(name: str | None, found: dict[str, Any]) -> float:
    return next(float(c["median"]) for c in found["contenders"] if c["name"] == name)


def bounds(of: Row, found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """For each bound: goal or floor, the requirement, and whether it is met."""
    own = float(found["contenders"][0]["median"]) if found["contenders"] else 0.0
    ratio = ratio_of(of, found)
    more = f" + {of.allowance:g} {of.unit}" if of.allowance else ""
    parts = []
    for word, bound, own_bound in (("goal", of.goal, of.own_goal), ("floor", of.floor, of.own_floor)):
        if bound is not None and ratio is not None:
            met = is_reached(of, ratio, bound)
            if of.allowance:
                met = is_reached(of, own, bound * median_of(of.against, found) + of.allowance)
            parts.append((word, f"{sign(of)} {bound:g} × {of.against}{more}", met))
        if own_bound is not None:
            requirement = f"{sign(of)} {human(own_bound)} {of.unit}"
            parts.append((word, requirement, is_reached(of, own, own_bound)))
    return parts


def verdict(of: Row, found: dict[str, Any]) -> str:
    """Goal and floor as text, and whether they are met."""
    parts = bounds(of, found)
    ratio = ratio_of(of, found)
    if of.against is not None and ratio is None:
        return f"\nNot measured against {of.against} on this machine.\n"
    if not parts:
        return ""
    text = "; ".join(
        f"{word} {requirement}: {'reached' if met else 'MISSED'}" for word, requirement, met in parts
    )
    measured = "" if ratio is None else f" (measured {ratio:.3g} ×)"
    why = f"\n{of.why}\n" if of.why and not all(met for _, _, met in parts) else ""
    return f"\n{text}{measured}.\n{why}"


def section(of: Row, found: dict[str, Any]) -> str:
    lines = [f"### {of.title}", ""]
    lines.append(f"`{of.name}`, {of.unit}; {'higher' if of.higher_is_better else 'lower'} is better.")
    lines += ["", "| | median | quartiles | first ÷ this | quartiles |", "|---|---:|---:|---:|---:|"]
    for contender in found["contenders"]:
        low, high = contender["quartiles"]
        median, ratio = human(contender["median"]), f"{contender['ratio']:.3g}"
        of_ratio = contender.get("ratio_quartiles")
        spread = "" if of_ratio is None else f"{of_ratio[0]:.3g} – {of_ratio[1]:.3g}"
        lines.append(
            f"| {contender['name']} | {median} | {human(low)} – {human(high)} | {ratio} | {spread} |"
        )
    footer = f"\n{found['date']}, commit `{found['commit']}`, {found['rounds']} rounds, {found['machine']}."
    return "\n".join(lines) + "\n" + verdict(of, found) + footer + "\n"


def summary(rows: dict[str, Row], known: dict[str, Any]) -> str:
    """All rows with a goal."""
    lines = ["## Goals", "", "| | ours | theirs | ratio | goal | floor |", "|---|---:|---:|---:|---|---|"]
    for name, of in rows.items():
        if name not in known or (of.goal is None and of.own_goal is None):
            continue
        found = known[name]
        cells = {"goal": [], "floor": []}  # type: dict[str, list[str]]
        for word, requirement, met in bounds(of, found):
            short = requirement.replace(f" × {of.against}", "") if of.against else requirement
            cells[word].append(f"{short} {'✓' if met else '✗'}")
        ours = found["contenders"][0]
        theirs = next((c for c in found["contenders"] if c["name"] == of.against), None)
        ratio = ratio_of(of, found)
        lines.append(
            f"| {of.title} ({of.unit}) | {human(ours['median'])} | "
            f"{'' if theirs is None else human(theirs['median'])} | "
            f"{'' if ratio is None else f'{ratio:.3g}'} | {', '.join(cells['goal'])} | "
            f"{', '.join(cells['floor'])} |"
        )
    return "\n".join(lines) + "\n"


def write_page(page: Path, notes: Path, rows: dict[str, Row], known: dict[str, Any]) -> None:
    sections = [section(rows[name], known[name]) for name in rows if name in known]
    ending = notes.read_text("utf-8") if notes.exists() else ""
    parts = [INTRODUCTION, summary(rows, known), "## All rows\n", *sections, ending]
    page.write_text("\n".join(parts).rstrip() + "\n", "utf-8")
