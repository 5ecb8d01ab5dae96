"""The page: what happened when, in which service, in lines of which kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path

from barnabas.spark.logs.report import plots
from barnabas.spark.logs.report.axis import TimeAxis, main_part
from barnabas.spark.logs.results import Results, Template, WindowCount, read_results

Windows = list[tuple[datetime, list[WindowCount]]]

TITLE = "Logs of all services"
MOST_TEMPLATES = 30  # In a table.
MOST_KINDS = 1_000  # Templates that a window can show.
MOST_ROWS = 40  # Services in the plot of error rates.
LONGEST = 400  # Characters of a sample.


def write_report(settings: Mapping[str, str], path: str) -> None:
    """Read the pipeline's results and write a page."""
    write_page(path, lambda: page(read_results(settings["bootstrap"], settings)))


def write_page(path: str, make: Callable[[], str]) -> None:
    """Write what `make` returns."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    is_new = not place.exists()
    # An unwritable path is reported before everything is read, which may take long.
    if is_new or place.is_file() or place.is_dir():
        place.open("a").close()
    try:
        text = make()
    except BaseException:
        if is_new:
            place.unlink()
        raise
    place.write_text(text, encoding="utf-8")


def page(results: Results, title: str = TITLE) -> str:
    windows = results.newest_windows()
    numbers = {start: number for number, (start, _) in enumerate(windows)}
    part = main_part([(start, counts[0].end, sum(c.lines for c in counts)) for start, counts in windows])
    shown = [each for each in windows if part and part[0] <= each[0] < part[1]]
    sections = [f"<h1>{escape(title)}</h1>", _span(results, part), _overview(results), _foreign(results)]
    if part is not None:
        axis = TimeAxis(*part)
        sections += [
            "<h2>Lines over time</h2>",
            '<p class="soft hint">Choose a window to see its services and the kinds of its lines.</p>',
            plots.bars(_bars(shown, numbers), ("errors", "warnings", "lines"), axis, "lines over time"),
            _strays([each for each in windows if each not in shown]),
            '<section id="window" hidden></section>',
            "<h2>Error rate of each service</h2>",
            plots.heat(_rates(results, shown, numbers), axis),
        ]
    sections += [
        "<h2>Services</h2>", _services(results),
        "<h2>Alerts</h2>", _alerts(results),
        *_templates(results),
        "<h2>Lines that could not be parsed</h2>", _bad(results),
    ]  # fmt: skip
    program = (
        f'<script type="application/json" id="data">{_data(results, windows)}</script>'
        f"<script>{asset('page.js')}</script>"
    )
    return whole_page(title, "".join(sections) + program)


def whole_page(title: str, body: str) -> str:
    """One file that asks for nothing else."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{asset('page.css')}</style><body>{body}</body></html>\n"
    )


def asset(name: str) -> str:
    return (files("barnabas.spark.logs.report") / name).read_text("utf-8")


def _data(results: Results, windows: Windows) -> str:
    """What the program of the page needs, safe within HTML."""
    numbers = {start: number for number, (start, _) in enumerate(windows)}
    kinds = sorted(results.templates.values(), key=lambda each: -each.lines)[:MOST_KINDS]
    data = {
        "windows": [
            [
                f"{start:%Y-%m-%d %H:%M:%S} to {counts[0].end:%H:%M:%S} UTC",
                [
                    [count.service, count.lines, count.requests, count.errors, count.warnings]
                    for count in sorted(counts, key=lambda each: -each.lines)
                ],
            ]
            for start, counts in windows
        ],
        "templates": [
            [
                kind.service, kind.level, kind.text[:LONGEST], kind.sample[:LONGEST],
                {numbers[start]: lines for start, lines in kind.windows.items() if start in numbers},
            ]
            for kind in kinds
        ],
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _span(results: Results, part: tuple[datetime, datetime] | None) -> str:
    if part is None:
        return '<p class="soft">No lines were counted.</p>'
    return f'<p class="soft">{part[0]:%Y-%m-%d %H:%M:%S} to {part[1]:%Y-%m-%d %H:%M:%S}, times in UTC</p>'


def _overview(results: Results) -> str:
    figures = {
        "lines counted": results.lines,
        "services": len(results.services),
        "errors": sum(totals.errors for totals in results.totals.values()),
        "kinds of lines": len(results.templates),
        **({"failed requests, with their errors": results.failures} if results.failures else {}),
        "alerts raised": results.alerts_raised,
        "dead letters": results.bad.total(),
    }
    spans = "".join(f"<span><b>{number:,}</b>{escape(name)}</span>" for name, number in figures.items())
    return f'<p class="big">{spans}</p>'


def _foreign(results: Results) -> str:
    if not results.foreign:
        return ""
    counts = ", ".join(f"{count:,} in {escape(topic)}" for topic, count in sorted(results.foreign.items()))
    return f"<p>Records that the pipeline has not written were left out: {counts}.</p>"


def _bars(windows: Windows, numbers: Mapping[datetime, int]) -> list[plots.Bar]:
    found = []
    for start, counts in windows:
        lines, errors, warnings = (
            sum(getattr(count, name) for count in counts) for name in ("lines", "errors", "warnings")
        )
        title = f"{start:%Y-%m-%d %H:%M:%S}: {lines:,} lines, {errors:,} errors, {warnings:,} warnings"
        rest = max(lines - errors - warnings, 0)
        found.append(plots.Bar(numbers[start], start, counts[0].end, (errors, warnings, rest), title))
    return found


def _strays(windows: Windows) -> str:
    """Windows far from all others, where the axis does not go."""
    if not windows:
        return ""
    lines = sum(count.lines for _, counts in windows for count in counts)
    days = sorted({f"{start:%Y-%m-%d}" for start, _ in windows})
    said = ", ".join(days[:10]) + (" and others" if len(days) > 10 else "")
    return f'<p class="soft">Not shown, for times far from the others: lines of {said} ({lines:,}).</p>'


def _rates(
    results: Results, windows: Windows, numbers: Mapping[datetime, int]
) -> dict[str, list[tuple[int, datetime, datetime, float | None]]]:
    """Errors per request, or per line where there are none; the services with the most errors first."""
    rows: dict[str, list[tuple[int, datetime, datetime, float | None]]] = {}
    most = sorted(results.totals, key=lambda name: (-results.totals[name].errors, name))[:MOST_ROWS]
    for start, counts in windows:
        for count in counts:
            if count.service in most:
                of = count.requests or count.lines
                rate = min(count.errors / of, 1.0) if of else None
                rows.setdefault(count.service, []).append((numbers[start], start, count.end, rate))
    return {name: rows[name] for name in most if name in rows}


def _services(results: Results) -> str:
    rows = []
    for service, totals in sorted(results.totals.items()):
        requests = totals.requests
        mean_ms = f"{totals.duration_ms / requests:,.0f} ms" if requests and totals.duration_ms else ""
        rate = f"{100 * totals.errors / requests:.1f} %" if requests else ""
        rows.append(
            (escape(service), escape(totals.owner), f"{totals.lines:,}", f"{requests:,}",
             f"{totals.errors:,}", f"{totals.warnings:,}", rate, mean_ms)
        )  # fmt: skip
    return table("service:t owner:t lines requests errors warnings error_rate mean_time", rows)


def _templates(results: Results) -> Iterable[str]:
    kinds = list(results.templates.values())
    most = sorted(kinds, key=lambda each: -each.lines)[:MOST_TEMPLATES]
    yield "<h2>Kinds of lines</h2>"
    yield table("lines service:t level:t,less kind,_and_one_of_them:t", [_kind(each) for each in most])
    new = sorted(((each.new_since, each) for each in kinds if each.new_since), key=lambda pair: pair[0])[::-1]
    yield "<h2>New kinds</h2>"
    rows = [(f"{since:%Y-%m-%d %H:%M}", *_kind(each)) for since, each in new[:MOST_TEMPLATES]]
    yield table("since:t lines service:t level:t,less kind,_and_one_of_them:t", rows)
    bursts = [(each.burst, each) for each in kinds]
    found = sorted(((burst, each) for burst, each in bursts if burst), key=lambda pair: -pair[0][1])
    yield "<h2>Bursts</h2>"
    bursting = [
        (f"{at:%Y-%m-%d %H:%M}", f"{times:,.0f} ×", *_kind(each))
        for (at, times), each in found[:MOST_TEMPLATES]
    ]
    yield table("at:t as_usual lines service:t level:t,less kind,_and_one_of_them:t", bursting)


def _kind(kind: Template) -> tuple[str, str, str, str]:
    text = escape(kind.text[:LONGEST])
    if kind.sample and kind.sample != kind.text:
        sample = escape(kind.sample[:LONGEST])
        text = f"<details><summary><code>{text}</code></summary><code>{sample}</code></details>"
    else:
        text = f"<code>{text}</code>"
    return f"{kind.lines:,}", escape(kind.service), escape(kind.level or ""), text


def _alerts(results: Results) -> str:
    rows = [
        (
            escape(alert.service), escape(alert.owner), escape(alert.rule),
            f'<span class="{escape(alert.state)}">{escape(alert.state)}</span>',
            f"{alert.since:%Y-%m-%d %H:%M:%S}", f"{alert.value:.3g}",
        )
        for alert in results.alerts
    ]  # fmt: skip
    return table("service:t owner:t rule:t state:t since:t value", rows)


def _bad(results: Results) -> str:
    if not results.bad:
        return "<p>None.</p>"
    rows = [(escape(problem), f"{count:,}") for problem, count in results.bad.most_common()]
    samples = [
        (escape(problem), f"<code>{escape(text[:200])}</code>") for problem, text in results.bad_samples
    ]
    return table("reason:t lines", rows) + "<h3>Some of them</h3>" + table("reason:t line:t", samples)


def table(heads: str, rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML; a head is `name:class,class`, with _ for blanks."""
    if not rows:
        return "<p>None.</p>"
    columns = [head.partition(":") for head in heads.split()]
    names = [(name.replace("_", " "), kinds.replace(",", " ")) for name, _, kinds in columns]
    head = "".join(f'<th class="{kinds}">{name}' for name, kinds in names)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kinds}">{cell}' for (_, kinds), cell in zip(names, row, strict=True))
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}{body}</table></div>'
