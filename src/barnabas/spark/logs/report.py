"""The report: results as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape
from pathlib import Path

from barnabas.spark.logs import plots
from barnabas.spark.logs.results import Results, WindowCount, read_results

Windows = list[tuple[datetime, list[WindowCount]]]

# The error rate at which a square is darkest.
DARKEST_RATE = 0.5

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif } svg text { fill: #555 }
table { border-collapse: collapse; width: 100% } th, td { padding: .25em .6em; text-align: right }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
tr:nth-child(even) { background: #f5f5f7 } code { font-size: .85em; overflow-wrap: anywhere }
.legend span { margin-right: 1em; white-space: nowrap } .legend i { display: inline-block; width: .8em;
height: .8em; margin-right: .3em } .big { display: flex; gap: 2em; flex-wrap: wrap } .big b { display: block;
font-size: 1.6em } .raised { color: #b00020 } .cleared { color: #1b7a2f }
"""


def write_report(settings: Mapping[str, str], path: str) -> None:
    """Read the pipeline's results and write a page."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    is_new = not place.exists()
    # An unwritable path is reported before everything is read, which may take long.
    if is_new or place.is_file() or place.is_dir():
        place.open("a").close()
    try:
        text = page(read_results(settings["bootstrap"]))
    except BaseException:
        if is_new:
            place.unlink()
        raise
    place.write_text(text, encoding="utf-8")


def page(results: Results) -> str:
    windows = results.newest_windows()
    labels = [f"{start:%H:%M:%S}" for start, _ in windows]
    parts = [
        "<h1>Logs of all services</h1>",
        _overview(results),
        _foreign(results),
        "<h2>Lines in each window</h2>",
        plots.lines(_per_window(windows), labels),
        "<h2>Error rate of each service</h2>",
        plots.heat(_rates(results.services, windows), labels, DARKEST_RATE),
        "<h2>Services</h2>",
        _services(results),
        "<h2>Alerts</h2>",
        _alerts(results),
        "<h2>Lines that could not be parsed</h2>",
        _bad(results),
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Logs of all services</title>'
        f"<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _overview(results: Results) -> str:
    figures = {
        "lines counted": results.lines,
        "services": len(results.services),
        "failed requests, with their errors": results.failures,
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


def _per_window(windows: Windows) -> dict[str, list[float | None]]:
    return {
        "lines": [float(sum(count.lines for count in counts)) for _, counts in windows],
        "requests": [float(sum(count.requests for count in counts)) for _, counts in windows],
        "errors": [float(sum(count.errors for count in counts)) for _, counts in windows],
    }


def _rates(services: list[str], windows: Windows) -> dict[str, list[float | None]]:
    by_window = [{count.service: count.error_rate for count in counts} for _, counts in windows]
    return {service: [rates.get(service) for rates in by_window] for service in services}


def _services(results: Results) -> str:
    rows = []
    for service, totals in sorted(results.totals.items()):
        requests = totals.requests
        mean_ms = totals.duration_ms / requests if requests else 0.0
        rate = 100 * totals.errors / requests if requests else 0.0
        rows.append(
            f"<tr><td>{escape(service)}<td>{escape(totals.owner)}<td>{totals.lines:,}<td>{requests:,}"
            f"<td>{totals.errors:,}<td>{rate:.1f} %<td>{mean_ms:.0f} ms"
        )
    head = "<tr><th>service<th>owner<th>lines<th>requests<th>errors<th>error rate<th>mean time"
    return f"<table>{head}{''.join(rows)}</table>"


def _alerts(results: Results) -> str:
    if not results.alerts:
        return "<p>None.</p>"
    rows = "".join(
        f'<tr><td>{escape(alert.service)}<td>{escape(alert.owner)}<td class="{escape(alert.state)}">'
        f"{escape(alert.state)}<td>{alert.since:%Y-%m-%d %H:%M:%S}<td>{100 * alert.error_rate:.1f} %"
        for alert in results.alerts
    )
    return f"<table><tr><th>service<th>owner<th>state<th>since<th>error rate{rows}</table>"


def _bad(results: Results) -> str:
    if not results.bad:
        return "<p>None.</p>"
    reasons = "".join(
        f"<tr><td>{escape(problem)}<td><td>{count:,}" for problem, count in results.bad.most_common()
    )
    samples = "".join(
        f"<tr><td>{escape(problem)}<td><code>{escape(text[:200])}</code>"
        for problem, text in results.bad_samples
    )
    return f"<table>{reasons}</table><h3>Some of them</h3><table>{samples}</table>"
