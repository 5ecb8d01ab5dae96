"""The live view of results, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.spark.logs.results import Results, WindowCount
from barnabas.spark.pipeline.running import Progress

BAR_WIDTH = 24
SHOWN_WINDOWS = 6


def view(results: Results, progress: Sequence[Progress], written: int, width: int) -> list[str]:
    """Return the current state; no line is longer than the terminal is wide."""
    found = f"{results.bad.total():,} dead letters, {results.failures:,} failed requests"
    lines = [
        f"{written:,} lines written in this run; of all runs {found}",
        "",
        *_services(results),
        "",
        *_alerts(results),
        "",
        *[_query(query) for query in progress],
    ]
    return [line[: width - 1] for line in lines]


def _services(results: Results) -> list[str]:
    """The newest window, with the error rates of the windows before it as a small chart."""
    windows = results.newest_windows()[-SHOWN_WINDOWS:]
    if not windows:
        return ["the first window has not ended yet"]
    start, newest = windows[-1]
    most = max(1, *(count.lines for count in newest))
    lines = [f"window {start:%H:%M:%S} (UTC)"]
    for count in sorted(newest, key=lambda each: each.service):
        bar = "█" * round(BAR_WIDTH * count.lines / most)
        rates = "".join(_rate_mark(count.service, counts) for _, counts in windows)
        lines.append(f"  {count.service:<9} {bar:<{BAR_WIDTH}} {count.lines:>6,}  errors {rates}")
    return lines


def _rate_mark(service: str, counts: list[WindowCount]) -> str:
    rate = next((count.error_rate for count in counts if count.service == service), None)
    if rate is None:
        return " "
    return " ▁▂▃▄▅▆▇█"[min(8, round(rate * 16))] if rate else "·"


def _alerts(results: Results) -> list[str]:
    raised = results.raised()
    if not raised:
        return ["no alerts"]
    return [
        f"ALERT {alert.service} ({alert.owner}) since {alert.since:%H:%M:%S}: {alert.rule} {alert.value:g}"
        for alert in raised
    ]


def _query(progress: Progress) -> str:
    lag = "" if progress.lag is None else f", {progress.lag:,} behind"
    return (
        f"{progress.name:<9} batch {progress.batch}: {progress.input_rows:,} rows in {progress.batch_ms:,} "
        f"ms{lag}, "
        f"{progress.state_rows:,} in state"
    )


def summary(results: Results) -> list[str]:
    """Return the final results."""
    foreign = results.foreign.total()
    return [
        f"{results.lines:,} lines counted in {results.windows} windows of {len(results.services)} services",
        f"{results.failures:,} failed requests joined with their errors",
        f"{results.alerts_raised} alerts raised, {results.alerts_cleared} cleared",
        f"{results.bad.total():,} lines that could not be parsed, in logs.bad",
        *([f"{foreign:,} records that the pipeline has not written, left out"] if foreign else []),
    ]
