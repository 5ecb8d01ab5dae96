from __future__ import annotations

import struct
import zlib

import pytest

from barnabas.batch.view import CorruptBatch
from barnabas.runtime.disk.disk import File
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.segment.batch_headers import PIECE_BYTES, crc_ok, header_at, headers, pieces
from tests.storage.logs import batch


def old_message(offset: int, magic: int, value: bytes, timestamp: int = 0) -> bytes:
    """A message of format v0 or v1, as old logs have them."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def file_of(data: bytes) -> File:
    disk = MemoryDisk()
    file = disk.open("/f", create=True)
    file.append([data])
    return file


def log_of(*sizes: int) -> bytes:
    return b"".join(batch(1, size=size) for size in sizes)


def test_headers_are_found_across_windows_and_behind_large_batches() -> None:
    data = log_of(10, 20_000, 5, 8100, 3, 40)
    found = list(headers(file_of(data), 0, len(data)))
    assert found[0].position == 0
    assert len(found) == 6
    assert found[-1].end == len(data)
    assert [header.size for header in headers(file_of(data), found[2].position, len(data))] == [
        header.size for header in found[2:]
    ]


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_an_incomplete_batch_ends_the_walk(cut: int) -> None:
    data = log_of(10, 100)
    assert len(list(headers(file_of(data[:-cut]), 0, len(data) - cut))) == 1


@pytest.mark.parametrize(
    ("position", "patch"),
    [
        (8, b"\x00\x00\x00\x05"),
        (8, b"\x00\x00\x00\x20"),
        (8, b"\xff\xff\xff\xff"),
        (16, b"\x03"),
        (23, b"\x80"),
        (0, b"\x80"),
    ],
    ids=[
        "tiny",
        "less than a header",
        "negative",
        "magic",
        "last offset before the first",
        "negative offset",
    ],
)
def test_what_is_no_header_is_refused(position: int, patch: bytes) -> None:
    data = bytearray(log_of(10))
    data[position : position + len(patch)] = patch
    with pytest.raises(CorruptBatch):
        list(headers(file_of(bytes(data)), 0, len(data)))


def test_pieces_hold_whole_batches_and_a_large_batch_comes_alone() -> None:
    data = log_of(600_000, 600_000, 10, PIECE_BYTES + 1000, 10)
    got = list(pieces(file_of(data), 0, len(data)))
    assert b"".join(piece[: found[-1].end - position] for position, piece, found in got) == data
    assert [len(found) for _, _, found in got] == [1, 2, 1, 1]
    for position, piece, found in got:
        assert all(crc_ok(header, piece, header.position - position) for header in found)


def test_sound_batches_before_damage_are_handed_out_first() -> None:
    data = log_of(10, 10) + b"\x00" * 100
    walk = pieces(file_of(data), 0, len(data))
    assert len(next(walk)[2]) == 2
    with pytest.raises(CorruptBatch):
        next(walk)


def test_messages_of_old_formats_are_walked_by_their_last_offset() -> None:
    data = old_message(3, 0, b"a") + old_message(5, 1, b"bcd", 77) + log_of(10)
    found = list(headers(file_of(data), 0, len(data)))
    assert [(header.magic, header.last_offset, header.max_timestamp) for header in found[:2]] == [
        (0, 3, -1),
        (1, 5, 77),
    ]
    assert not found[0].has_producer_id
    assert all(crc_ok(header, data, header.position) for header in found)
    broken = bytearray(data)
    broken[20] ^= 1
    assert not crc_ok(found[0], broken, 0)


def test_a_head_knows_its_last_sequence_beyond_the_wrap() -> None:
    data = batch(4, producer_id=9, producer_epoch=2, base_sequence=2**31 - 2)
    header = header_at(data, 0, 0)
    assert header is not None
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 2, 1)
