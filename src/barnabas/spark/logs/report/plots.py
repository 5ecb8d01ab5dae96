"""Plots that fit any width: drawings that are stretched, with labels of HTML around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from barnabas.spark.logs.report.axis import Tick, TimeAxis, numbers

# A drawing is as wide; it is stretched to the width of the page.
WIDTH, HEIGHT, ROW = 1000, 200, 20
LATE = 0.8
# The error rates at which a square has the next colour of the scale.
SCALE = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Bar:
    """A window: its number in the page's data, and the height of each part, drawn one above the other."""

    number: int
    start: datetime
    end: datetime
    parts: tuple[int, ...]
    title: str


def bars(found: Sequence[Bar], kinds: Sequence[str], axis: TimeAxis, label: str) -> str:
    """A bar for each window, where it is in time."""
    ticks = numbers(max((sum(bar.parts) for bar in found), default=0))
    top = float(ticks[-1].label.replace(",", ""))
    drawn = []
    for bar in found:
        x, width = _span(axis, bar.start, bar.end)
        y = float(HEIGHT)
        pieces = []
        for kind, part in zip(kinds, bar.parts, strict=True):
            height = HEIGHT * part / top
            y -= height
            if part:
                pieces.append(_rect(kind, x, y, width, height))
        pieces.append(_rect("hit", x, 0, width, HEIGHT))
        drawn.append(_group(bar.number, bar.title, "".join(pieces)))
    heights = [HEIGHT * (1 - tick.place) for tick in ticks]
    lines = "".join(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:.2f}" y2="{y:.2f}"/>' for y in heights)
    legend = "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in kinds)
    return (
        f'<figure class="plot"><div class="numbers">{_upright(ticks)}</div>'
        f"{_svg(lines + ''.join(drawn), HEIGHT, label)}{_times(axis)}</figure>"
        f'<p class="legend">{legend}</p>'
    )


def heat(rows: Mapping[str, Sequence[tuple[int, datetime, datetime, float | None]]], axis: TimeAxis) -> str:
    """A row of squares for each name: number of the window, its time, and a rate or None."""
    drawn = []
    for name, values in rows.items():
        squares = []
        for number, start, end, rate in values:
            x, width = _span(axis, start, end)
            said = "no requests" if rate is None else f"{100 * rate:.1f} %"
            title = f"{name} {start:%Y-%m-%d %H:%M:%S}: {said}"
            squares.append(_group(number, title, _rect(_colour(rate), x, 0, width, ROW)))
        row = _svg("".join(squares), ROW, f"error rate of {name}")
        drawn.append(f'<div class="name">{escape(name)}</div>{row}')
    limits = [f"{100 * low:g} %" for low in SCALE]
    scale = "".join(
        f'<span><i class="rate{step}"></i>{"0 %" if not step else f"over {limits[step - 1]}"}</span>'
        for step in range(len(SCALE) + 1)
    )
    return (
        f'<figure class="heat">{"".join(drawn)}<div></div>{_times(axis)}</figure>'
        f'<p class="legend">{scale}<span><i class="none"></i>no requests</span></p>'
    )


def _group(number: int, title: str, drawn: str) -> str:
    return f'<g data-window="{number}"><title>{escape(title)}</title>{drawn}</g>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


def _colour(rate: float | None) -> str:
    return "none" if rate is None else f"rate{sum(rate > limit for limit in SCALE)}"


def _span(axis: TimeAxis, start: datetime, end: datetime) -> tuple[float, float]:
    x = WIDTH * axis.place(start)
    return x, max(WIDTH * axis.place(end) - x - 0.4, 1.0)


def _upright(ticks: Sequence[Tick]) -> str:
    return "".join(f'<span style="bottom:{100 * tick.place:.2f}%">{tick.label}</span>' for tick in ticks)


def _times(axis: TimeAxis) -> str:
    marks = "".join(
        f'<span style="{_edge(tick.place)}" class="{"odd" if number % 2 else "even"}">'
        f"{escape(tick.label).replace(chr(10), '<br>')}</span>"
        for number, tick in enumerate(axis.ticks())
    )
    return f'<div class="times">{marks}</div>'


def _edge(place: float) -> str:
    """Labels near the end stand before their place."""
    if place < LATE:
        return f"left:{100 * place:.2f}%"
    return f"right:{100 * (1 - place):.2f}%;border-width:0 1px 0 0;padding:0 .3em 0 0;text-align:right"


def _svg(drawn: str, height: int, label: str) -> str:
    box = f'viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none"'
    return f'<svg {box} role="img" aria-label="{escape(label)}">{drawn}</svg>'
