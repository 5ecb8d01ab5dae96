"""From Arrow batches to what the engine gathers from, in every layout that Spark may send."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barnabas.spark.sink.columns import SinkColumns, arrow_rows, rows_by_topic

HEADERS = [[("a", b"1"), ("b", None)], None, [], [("c", b"")]]
KEYS = ["k0", None, "", "k3"]
VALUES = [b"v0", b"", None, b"v3"]
PARTITIONS = [2, None, 0, 1]
ALL = SinkColumns(value=1, key=0, headers=2, partition=3, topic=4)
SMALL = (pa.string(), pa.binary(), pa.list_)
LARGE = (pa.large_string(), pa.large_binary(), pa.large_list)


def batch(layout: tuple[pa.DataType, pa.DataType, type], topics: list[str | None]) -> pa.RecordBatch:
    text, binary, listed = layout
    pairs = listed(pa.struct([("key", text), ("value", binary)]))
    headers = [
        None if cell is None else [{"key": name, "value": content} for name, content in cell]
        for cell in HEADERS
    ]
    return pa.record_batch(
        [
            pa.array(KEYS, text),
            pa.array(VALUES, binary),
            pa.array(headers, pairs),
            pa.array(PARTITIONS, pa.int32()),
            pa.array(topics, text),
        ],
        ["key", "value", "headers", "partition", "topic"],
    )


@pytest.mark.parametrize("layout", [SMALL, LARGE])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_cells_are_what_arrow_says_also_of_a_slice(
    layout: tuple[pa.DataType, pa.DataType, type], first: int
) -> None:
    rows = arrow_rows(batch(layout, ["t"] * 4).slice(first), ALL)
    assert rows.count == 4 - first
    assert rows.keys is not None
    assert rows.partitions is not None
    for row in range(rows.count):
        key = KEYS[first + row]
        assert rows.keys.cell(row) == (None if key is None else key.encode())
        assert rows.values.cell(row) == VALUES[first + row]
        headers = () if rows.headers is None else rows.headers.cell(row)
        assert headers == tuple(HEADERS[first + row] or ())
        number = PARTITIONS[first + row]
        assert rows.partitions.has(row) is (number is not None)
        assert number is None or rows.partitions.number(row) == number


def test_columns_that_are_not_there_cost_nothing() -> None:
    rows = arrow_rows(batch(SMALL, ["t"] * 4), SinkColumns(1, None, None, None, None))
    assert (rows.keys, rows.headers, rows.partitions) == (None, None, None)


def test_rows_go_to_their_topics_in_their_order() -> None:
    found = dict(rows_by_topic(batch(SMALL, ["x", "y", "x", "y"]), ALL, None))
    assert {name: [rows.values.cell(row) for row in range(rows.count)] for name, rows in found.items()} == {
        "x": [b"v0", None],
        "y": [b"", b"v3"],
    }
    assert [name for name, _ in rows_by_topic(batch(SMALL, ["x"] * 4), ALL, "other")] == ["other"]
    assert list(rows_by_topic(batch(SMALL, ["x"] * 4).slice(4), ALL, None)) == []


def test_a_row_without_topic_is_refused() -> None:
    with pytest.raises(ValueError, match="null topic present in the data"):
        list(rows_by_topic(batch(SMALL, ["x", None, "x", "x"]), ALL, None))
