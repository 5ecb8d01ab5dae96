"""Rows of Arrow columns, appended to batches by partition."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.hashing import partition_for_key
from barnabas.batch.build import assemble, attribute_bits
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import BatchView

from .twins import plain, running

TWINS = (running, plain)
CELLS = st.none() | st.binary(max_size=40)
NOW_MS = 1_700_000_000_000
ROOMY = 1 << 20


def bits(present: list[bool], first: int) -> bytes:
    """A bit field whose cells before `first` are null."""
    field = bytearray((first + len(present) + 7) // 8)
    for index, is_present in enumerate(present, first):
        if is_present:
            field[index >> 3] |= 1 << (index & 7)
    return bytes(field)


def binary(module: ModuleType, cells: list[bytes | None], first: int = 0) -> object:
    """A column whose rows begin at the cell `first`, as in a slice."""
    ends = [7] * first
    data = b"before!" if first else b""
    ends.append(len(data))
    for cell in cells:
        data += cell or b""
        ends.append(len(data))
    valid = bits([cell is not None for cell in cells], first) if None in cells else b""
    return module.BinaryCells(data, struct.pack(f"<{len(ends)}i", *ends), valid, first)


def numbers(module: ModuleType, cells: list[int | None], first: int = 0) -> object:
    data = struct.pack(f"<{first + len(cells)}i", *[99] * first, *[cell or 0 for cell in cells])
    return module.NumberCells(data, bits([cell is not None for cell in cells], first), first)


def records_of(gatherer: object) -> list[Record]:
    """The records of a batch, decoded."""
    count = gatherer.count  # type: ignore[attr-defined]
    if not count:
        return []
    batch = assemble(
        gatherer.payload(),  # type: ignore[attr-defined]
        base_offset=0,
        last_offset_delta=count - 1,
        leader_epoch=-1,
        attributes=attribute_bits(Codec.NONE, TimestampType.CREATE_TIME, False, False, False),
        base_timestamp=gatherer.base_timestamp,  # type: ignore[attr-defined]
        max_timestamp=gatherer.max_timestamp,  # type: ignore[attr-defined]
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return list(BatchView(bytes(batch)).records())


@pytest.mark.parametrize("twin", TWINS)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, st.none() | st.integers(0, 4)), min_size=1, max_size=30),
    first=st.sampled_from([0, 3, 9]),
    hashes=st.booleans(),
)
def test_every_row_goes_to_its_partition(
    twin: object, rows: list[tuple[bytes | None, bytes | None, int | None]], first: int, hashes: bool
) -> None:
    assert callable(twin)
    module: ModuleType = twin("arrow_rows")
    gatherers = [twin("gather").Gatherer(ROOMY) for _ in range(5)]
    columns = module.ArrowRows(
        len(rows),
        binary(module, [row[0] for row in rows], first),
        binary(module, [row[1] for row in rows], first),
        None,
        numbers(module, [row[2] for row in rows], first),
    )
    assert module.gather_rows(columns, 0, NOW_MS, gatherers, 2, hashes) == (len(rows), -1, False)
    expected: list[list[tuple[bytes | None, bytes | None]]] = [[] for _ in range(5)]
    for key, value, partition in rows:
        if partition is None:
            partition = partition_for_key(key, 5) if key is not None and hashes else 2
        expected[partition].append((key, value))
    appended = [[(record.key, record.value) for record in records_of(gatherer)] for gatherer in gatherers]
    assert appended == expected
    assert {record.timestamp for gatherer in gatherers for record in records_of(gatherer)} == {NOW_MS}


@pytest.mark.parametrize("twin", TWINS)
def test_headers_are_lists_of_names_and_contents(twin: object) -> None:
    assert callable(twin)
    module: ModuleType = twin("arrow_rows")
    names = binary(module, [b"a", b"b", "ü".encode()])
    contents = binary(module, [b"1", None, b""])
    ends = struct.pack("<5i", 0, 2, 2, 2, 3)
    headers = module.HeaderCells(ends, bits([True, True, False, True], 0), 0, names, contents)
    columns = module.ArrowRows(4, None, binary(module, [b"v"] * 4), headers, None)
    gatherer = twin("gather").Gatherer(ROOMY)
    module.gather_rows(columns, 0, NOW_MS, [gatherer], 0, True)
    assert [record.headers for record in records_of(gatherer)] == [
        (("a", b"1"), ("b", None)),
        (),
        (),
        (("ü", b""),),
    ]
    assert columns.size_of(0) > columns.size_of(1)


@pytest.mark.parametrize("twin", TWINS)
def test_a_header_without_a_key_is_rejected(twin: object) -> None:
    assert callable(twin)
    module: ModuleType = twin("arrow_rows")
    headers = module.HeaderCells(
        struct.pack("<2i", 0, 1), b"", 0, binary(module, [None]), binary(module, [b""])
    )
    with pytest.raises(ValueError, match="no key"):
        headers.cell(0)


@pytest.mark.parametrize("twin", TWINS)
def test_it_stops_where_a_batch_is_missing_or_full_and_resumes_there(twin: object) -> None:
    assert callable(twin)
    module: ModuleType = twin("arrow_rows")
    values: list[bytes | None] = [b"x" * 50] * 10
    columns = module.ArrowRows(10, None, binary(module, values), None, None)
    assert module.gather_rows(columns, 0, NOW_MS, [None, None], 1, True) == (0, 1, True)
    small = [None, twin("gather").Gatherer(200)]
    row, partition, sticks = module.gather_rows(columns, 0, NOW_MS, small, 1, True)
    assert (partition, sticks) == (1, True)
    assert 0 < row < 10
    second = [None, twin("gather").Gatherer(ROOMY)]
    assert module.gather_rows(columns, row, NOW_MS, second, 1, True) == (10, -1, False)
    assert len(records_of(small[1])) + len(records_of(second[1])) == 10


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("partition", [-1, 2])
def test_an_invalid_partition_is_reported(twin: object, partition: int) -> None:
    assert callable(twin)
    module: ModuleType = twin("arrow_rows")
    columns = module.ArrowRows(1, None, binary(module, [b"v"]), None, numbers(module, [partition]))
    targets = [twin("gather").Gatherer(ROOMY) for _ in range(2)]
    assert module.gather_rows(columns, 0, NOW_MS, targets, 0, True) == (0, partition, False)
