"""Tables as Apache Kafka's tools print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def tabbed_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest value, each followed by a tab (transactions, metadata-quorum)."""
    texts = [list(headers), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    return "".join(
        "".join(f"{value:<{width}}\t" for value, width in zip(row, widths, strict=True)) + "\n"
        for row in texts
    )


def padded_row(values: Sequence[object], widths: Sequence[int]) -> str:
    """Left-aligned values with one blank between the columns, as `%-15s %-10s` prints them.

    A width of 0 means no padding.  A value wider than its column moves the following ones to the right.
    """
    return " ".join(f"{value!s:<{width}}" for value, width in zip(values, widths, strict=True))
