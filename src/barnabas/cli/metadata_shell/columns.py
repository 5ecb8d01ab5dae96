"""Names in columns, as wide as the screen allows; each column downwards, as `ls` does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = 2
NARROWEST = 4


def in_columns(names: Sequence[str], width: int | None) -> Iterator[str]:
    """The lines; without a screen, a name a line."""
    rows, widths = _layout(names, width)
    for row in range(rows):
        here = names[row::rows]
        padded = [f"{name:<{size}}" for name, size in zip(here[:-1], widths, strict=False)]
        yield "".join([*padded, here[-1]])


def _layout(names: Sequence[str], width: int | None) -> tuple[int, list[int]]:
    """Rows, and the widths of columns: as many columns as there is room for."""
    for count in range(min(len(names), (width or 0) // NARROWEST), 1, -1):
        rows = -(-len(names) // count)
        widths = [GAP + max(map(len, names[start : start + rows])) for start in range(0, len(names), rows)]
        if len(widths) == count and sum(widths) <= (width or 0):
            return rows, widths
    return len(names), [0]
