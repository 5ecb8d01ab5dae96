"""Small SVG plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 900, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 16, 36
GRID_LINES = 4
COLOURS = (
    "#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6",
    "#dd4477", "#66aa00", "#b82e2e", "#316395", "#994499", "#22aa99",
)  # fmt: skip


def lines(series: Mapping[str, Sequence[float | None]], labels: Sequence[str], unit: str = "") -> str:
    """Plot one line per series over the same x positions; None leaves a gap."""
    top = max([value for values in series.values() for value in values if value is not None] or [0.0]) or 1.0
    drawn = [_grid(top, labels, unit)]
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{points}">'
            f"<title>{escape(name)}</title></polyline>"
            for points in _pieces(values, top)
        ]
    return _svg(drawn, HEIGHT) + _legend(list(series))


def heat(rows: Mapping[str, Sequence[float | None]], labels: Sequence[str], most: float) -> str:
    """Plot a row of squares per name: white for 0, dark red for `most` and more, grey for no value."""
    row_height = 20
    height = TOP + row_height * len(rows) + BOTTOM
    count = max(len(labels), 1)
    step = (WIDTH - 120 - RIGHT) / count
    drawn = []
    for number, (name, values) in enumerate(rows.items()):
        y = TOP + number * row_height
        drawn.append(f'<text x="112" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for place, value in enumerate(values):
            label = "no requests" if value is None else f"{100 * value:.1f} %"
            drawn.append(
                f'<rect x="{120 + place * step:.1f}" y="{y}" width="{max(step - 0.5, 0.5):.1f}" '
                f'height="{row_height - 2}" fill="{_heat_colour(value, most)}">'
                f"<title>{escape(name)} {escape(labels[place])}: {label}</title></rect>"
            )
    drawn += [
        f'<text x="{120 + place * step:.1f}" y="{height - 12}">{escape(labels[place])}</text>'
        for place in _some_places(count)
        if labels
    ]
    return _svg(drawn, height)


def _heat_colour(value: float | None, most: float) -> str:
    if value is None:
        return "#eeeeee"
    share = min(value / most, 1.0)
    return f"rgb({255 - int(75 * share)},{255 - int(225 * share)},{255 - int(225 * share)})"


def _pieces(values: Sequence[float | None], top: float) -> list[str]:
    """Return the points of each segment without a gap."""
    step = (WIDTH - LEFT - RIGHT) / max(len(values) - 1, 1)
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top
            pieces[-1].append(f"{LEFT + place * step:.1f},{y:.1f}")
    return [" ".join(piece) for piece in pieces if piece]


def _grid(top: float, labels: Sequence[str], unit: str) -> str:
    drawn = []
    for number in range(GRID_LINES + 1):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number / GRID_LINES
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        text = f"{top * number / GRID_LINES:.3g}{unit}"
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    step = (WIDTH - LEFT - RIGHT) / max(len(labels) - 1, 1)
    drawn += [
        f'<text x="{LEFT + place * step:.1f}" y="{HEIGHT - 12}">{escape(labels[place])}</text>'
        for place in _some_places(len(labels))
    ]
    return "".join(drawn)


def _some_places(count: int) -> range:
    """Return positions for labels that do not overlap."""
    return range(0, count, max(1, count // 8))


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    marks = "".join(
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="legend">{marks}</p>'


def _svg(drawn: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(drawn)}</svg>'
