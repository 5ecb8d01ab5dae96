"""Names in columns that fit the screen, sorted downwards, as in `ls`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GAP = 2
MIN_WIDTH = 4


def in_columns(names: Sequence[str], width: int | None) -> Iterator[str]:
    """The lines; without a screen, one name per line."""
    rows, widths = _layout(names, width)
    for row in range(rows):
        row_names = names[row::rows]
        padded = [f"{name:<{size}}" for name, size in zip(row_names[:-1], widths, strict=False)]
        yield "".join([*padded, row_names[-1]])


def _layout(names: Sequence[str], width: int | None) -> tuple[int, list[int]]:
    """The number of rows, and the widths of the columns: as many columns as fit."""
    for count in range(min(len(names), (width or 0) // MIN_WIDTH), 1, -1):
        rows = -(-len(names) // count)
        widths = [GAP + max(map(len, names[start : start + rows])) for start in range(0, len(names), rows)]
        if len(widths) == count and sum(widths) <= (width or 0):
            return rows, widths
    return len(names), [0]
