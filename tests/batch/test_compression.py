"""Codecs: round trips, limits, bombs."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch import compression
from barnabas.batch.compression import LEVELS, Codec, compress, decompress
from barnabas.batch.faults import CorruptBatch

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
MIXED = bytes(range(256)) * 300 + bytes(100_000) + b"abc" * 40_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"a", b"hello " * 500, MIXED], ids=["empty", "one", "small", "large"])
def test_round_trip_and_exact_limit(codec: Codec, data: bytes) -> None:
    for level in (None, *LEVELS.get(codec, ())[:2]):
        packed = compress(codec, data, level)
        assert decompress(codec, packed, len(data)) == data
        assert decompress(codec, memoryview(packed), len(data) + 1) == data
        if data and codec is not Codec.NONE:
            with pytest.raises(KafkaError) as caught:
                decompress(codec, packed, len(data) - 1)
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@given(st.binary(max_size=2000), st.sampled_from(COMPRESSED), st.integers(0, 255), st.data())
def test_damaged_data_raises_or_is_bounded(
    data: bytes, codec: Codec, byte: int, draws: st.DataObject
) -> None:
    packed = bytearray(compress(codec, data))
    packed[draws.draw(st.integers(0, len(packed) - 1))] = byte
    packed = packed[: draws.draw(st.integers(0, len(packed)))]
    try:
        assert len(decompress(codec, bytes(packed), 4000)) <= 4000
    except KafkaError as error:
        assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_every_truncation_is_rejected(codec: Codec) -> None:
    packed = compress(codec, b"some text that repeats, some text that repeats" * 3)
    for end in range(len(packed)):
        with pytest.raises(CorruptBatch):
            # Without any frame zstd holds nothing; a batch always has one.
            if decompress(codec, packed[:end], 1000) == b"" and end == 0:
                raise CorruptBatch("nothing")


def test_levels_out_of_range_are_rejected() -> None:
    for codec, (lowest, highest, _) in LEVELS.items():
        for level in (lowest - 1, highest + 1):
            if level != LEVELS[codec][2]:
                with pytest.raises(ValueError, match=str(level)):
                    compress(codec, b"data", level)
    assert compress(Codec.SNAPPY, b"data", 99) == compress(Codec.SNAPPY, b"data")


def test_concatenated_gzip_members_and_zstd_frames_are_read() -> None:
    for codec in (Codec.GZIP, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two"), 7) == b"one two"
        with pytest.raises(KafkaError):
            decompress(codec, compress(codec, b"one ") + compress(codec, b"two"), 6)
    skippable = bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"abc"
    assert decompress(Codec.ZSTD, skippable + compress(Codec.ZSTD, b"data"), 10) == b"data"


def test_trailing_bytes_are_ignored_where_java_does_so() -> None:
    assert decompress(Codec.GZIP, compress(Codec.GZIP, b"data") + b"junk", 10) == b"data"
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"data") + b"junk", 10) == b"data"
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, b"data") + b"junk", 10)


def test_zstd_frames_without_a_content_size_are_read() -> None:
    packer = cramjam.zstd.Compressor(3)
    for start in range(0, len(MIXED), 10_000):
        packer.compress(MIXED[start : start + 10_000])
    assert decompress(Codec.ZSTD, bytes(packer.finish()), len(MIXED)) == MIXED


def test_plain_snappy_and_concatenated_snappy_streams_are_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED)), len(MIXED)) == MIXED
    twice = compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, twice, 7) == b"one two"


def test_dependent_lz4_blocks_are_rejected() -> None:
    packer = cramjam.lz4.Compressor(block_linked=True)
    packer.compress(MIXED)
    with pytest.raises(CorruptBatch, match="dependent"):
        decompress(Codec.LZ4, bytes(packer.finish()), len(MIXED))


@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_other_writers_are_read(checksum: bool) -> None:
    packer = cramjam.lz4.Compressor(block_linked=False, content_checksum=checksum)
    packer.compress(MIXED)
    assert decompress(Codec.LZ4, bytes(packer.finish()), len(MIXED)) == MIXED


def test_other_libraries_read_our_output() -> None:
    assert gzip.decompress(compress(Codec.GZIP, MIXED)) == MIXED
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, MIXED))) == MIXED
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, MIXED))) == MIXED


def test_gzip_works_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "inflater", zlib)
    packed = compress(Codec.GZIP, MIXED)
    assert decompress(Codec.GZIP, packed * 2, 2 * len(MIXED)) == MIXED * 2
    with pytest.raises(KafkaError):
        decompress(Codec.GZIP, packed, len(MIXED) - 1)
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, packed[:-8] + bytes(8), len(MIXED))


def test_an_impossible_block_size_allocates_nothing() -> None:
    # 1 GiB claimed by six bytes.
    with pytest.raises(CorruptBatch, match="claims"):
        decompress(Codec.SNAPPY, bytes.fromhex("808080800400"), 1 << 31)


def test_thousands_of_gzip_members_are_rejected() -> None:
    with pytest.raises(CorruptBatch, match="members"):
        decompress(Codec.GZIP, compress(Codec.GZIP, b"") * 5000, 1000)


BOMB = """
import resource, sys
from barnabas.base.errors import KafkaError
from barnabas.batch.compression import Codec, decompress

codec, packed, limit = Codec(int(sys.argv[1])), open(sys.argv[2], "rb").read(), 8 << 20
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, packed, limit)
except KafkaError as error:
    code = int(error.code)
print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_bounded_memory(codec: Codec, tmp_path: object) -> None:
    """More than a hundred megabytes of zeros: the limit is 8 MiB."""
    piece = bytes(1 << 20)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        packed = b"".join([packer.compress(piece) for _ in range(128)]) + packer.flush()
    elif codec is Codec.ZSTD:
        stream = cramjam.zstd.Compressor(1)
        for _ in range(256):
            stream.compress(piece)
        packed = bytes(stream.finish())
    else:
        packed = compress(codec, bytes(128 << 20))
    path = f"{tmp_path}/bomb"
    with open(path, "wb") as file:  # noqa: PTH123 - a plain file in a test
        file.write(packed)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(int(codec)), path], capture_output=True, text=True, check=True
    )
    code, grown_kib = done.stdout.split()
    assert int(code) == ErrorCode.MESSAGE_TOO_LARGE
    assert int(grown_kib) < 24 * 1024
