"""Upper bounds of the decompressed size of frames."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import KafkaError
from barnabas.batch.compression import Codec, compress
from barnabas.batch.frames import lz4_extent, zstd_bound

PIECES = st.lists(st.binary(max_size=300) | st.integers(0, 300_000).map(bytes), max_size=4)


@given(PIECES, st.sampled_from([1, 3, 9]))
def test_frames_never_hold_more_than_the_bound(pieces: list[bytes], level: int) -> None:
    data = b"".join(pieces)
    whole = compress(Codec.ZSTD, data, level)
    assert zstd_bound(memoryview(whole)) == len(data)
    stream = cramjam.zstd.Compressor(level)
    flushed = b""
    for piece in pieces:
        stream.compress(piece)
        flushed += bytes(stream.flush())
    assert zstd_bound(memoryview(flushed + bytes(stream.finish()))) >= len(data)
    frame = compress(Codec.LZ4, data, level)
    end, most = lz4_extent(memoryview(frame + b"tail"))
    assert end == len(frame)
    assert len(data) <= most <= len(data) + 65536


@given(st.binary(max_size=40), st.booleans())
def test_random_headers_raise_or_end(tail: bytes, zstd: bool) -> None:
    try:
        if zstd:
            assert zstd_bound(memoryview(bytes.fromhex("28b52ffd") + tail)) >= 0
        else:
            end, most = lz4_extent(memoryview(bytes.fromhex("04224d18") + tail))
            assert end <= len(tail) + 4
            assert most >= 0
    except KafkaError:
        pass


@pytest.mark.parametrize("data", [b"", b"abc", b"not a frame at all"])
def test_invalid_frames_are_rejected(data: bytes) -> None:
    with pytest.raises(KafkaError):
        lz4_extent(memoryview(data))
    if data:
        with pytest.raises(KafkaError):
            zstd_bound(memoryview(data))
