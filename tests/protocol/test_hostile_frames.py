"""Malformed frames: truncated, altered, or announcing more than they contain.  All raise ProtocolError.

Memory is measured: what a decoder allocates must stay in proportion to the input.
"""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import Uuid
from barnabas.protocol.apis import apis
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.primitives import ProtocolError, encode_unsigned_varint
from barnabas.protocol.schema import Field, Message, Schema
from tests.frames import read_request

from .catalogue import messages, versions

SEED = 7
MUTATIONS = 6
# A decoded object of one field takes some 60 bytes where the wire takes 2, and a list grows in steps.
BYTES_MADE_PER_BYTE = 200
ERROR_BYTES = 30_000
HUGE_LENGTHS = (0x7FFFFFFF, 0x7FFFFFFE, 0x01000000, 0x7FFF)


def filled(schema: Schema, version: int) -> Any:
    """A message in which every field the version has is set and every list has one element."""
    made = schema.new()
    for known in schema.fields:
        if version in known.versions:
            item = item_of(known, version)
            setattr(made, known.attribute, [item] if known.is_array else item)
    return made


def item_of(known: Field, version: int) -> Any:
    if known.struct is not None:
        return filled(known.struct.schema, version)
    samples = {"string": "text", "bytes": b"bytes", "record_data": b"records", "bool": True, "float64": 1.5}
    if known.kind == "uuid":
        return Uuid(bytes(range(16)))
    return samples.get(known.kind, 1)


def attempt(cls: type[Message], version: int, data: bytes) -> bool:
    """Whether it could be decoded; any error but ProtocolError fails the test."""
    try:
        message = cls.decode(data, version)
    except ProtocolError:
        return False
    # A decoded message can be encoded, though not always to the same bytes: unknown tags are dropped.
    message.encode(version)
    return True


def every_pair() -> Iterator[tuple[type[Message], int, bytes]]:
    for cls in messages():
        for version in versions(cls):
            yield cls, version, filled(cls.schema, version).encode(version)


def test_every_truncated_message_is_rejected() -> None:
    """At every byte."""
    for cls, version, encoded in every_pair():
        assert attempt(cls, version, encoded)
        for size in range(len(encoded)):
            assert not attempt(cls, version, encoded[:size]), (cls, version, size)


def test_altered_bytes_are_decoded_or_rejected() -> None:
    seeded = random.Random(SEED)
    rejected = read = 0
    for cls, version, encoded in every_pair():
        for _ in range(MUTATIONS if encoded else 0):
            changed = bytearray(encoded)
            for _ in range(seeded.choice((1, 1, 2, 5))):
                changed[seeded.randrange(len(changed))] = seeded.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, seeded.randrange(256))
                )
            if attempt(cls, version, bytes(changed)):
                read += 1
            else:
                rejected += 1
    assert rejected > 1000
    assert read > 1000


def test_false_lengths_allocate_nothing() -> None:
    """Four bytes, or a varint, that announce up to two billion, at every position of a message."""
    tracemalloc.start()
    try:
        for cls, version, encoded in every_pair():
            assert attempt(cls, version, encoded)  # the first use of a version also pays for its compilation
            for length in HUGE_LENGTHS:
                for lie in (struct.pack(">i", length), encode_unsigned_varint(length)):
                    position = (length * 31 + len(encoded)) % (len(encoded) + 1)
                    tracemalloc.reset_peak()
                    before, _ = tracemalloc.get_traced_memory()
                    attempt(cls, version, encoded[:position] + lie + encoded[position:])
                    _, peak = tracemalloc.get_traced_memory()
                    # The first use of a version also pays for its compilation.
                    assert peak - before < 400_000 + BYTES_MADE_PER_BYTE * len(encoded), (
                        cls,
                        version,
                        length,
                    )
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("cls", "version", "start"),
    [
        (MetadataRequest, 1, ""),
        (MetadataRequest, 9, ""),
        (OffsetFetchRequest, 5, "000167"),
        (JoinGroupRequest, 5, "000167000000010000000100016dffff000163"),
        (ProduceRequest, 3, "ffffffff00000001"),
        (ProduceRequest, 9, "00ffff00000001"),
        (FetchResponse, 4, "00000000"),
        (FetchResponse, 12, "00000000000000000000"),
        (UpdateMetadataRequest, 0, "0000000100000001"),
    ],
)
def test_a_list_is_not_allocated_when_its_elements_cannot_fit(
    cls: type[Message], version: int, start: str
) -> None:
    flexible = version in cls.schema.flexible
    count = encode_unsigned_varint(0x7FFFFFFF) if flexible else struct.pack(">i", 0x7FFFFFFF)
    with pytest.raises(ProtocolError, match=r"a list of 214748364\d does not fit") as caught:
        cls.decode(bytes.fromhex(start) + count + b"\x00" * 64, version)
    assert caught.value.field
    assert caught.value.position is not None


def test_a_count_that_just_fits_is_still_bounded_by_the_input() -> None:
    """A hundred kilobytes of empty names makes a list of them, and not more."""
    data = struct.pack(">i", 50_000) + b"\x00\x00" * 50_000
    request = MetadataRequest.decode(data + b"\x01", 4)
    assert request.topics is not None
    assert len(request.topics) == 50_000
    with pytest.raises(ProtocolError, match="does not fit"):
        MetadataRequest.decode(struct.pack(">i", 50_001) + data[4:], 4)


def test_null_where_it_is_not_allowed() -> None:
    with pytest.raises(ProtocolError, match="topics is null, which version 0 does not allow"):
        MetadataRequest.decode(struct.pack(">i", -1), 0)
    assert MetadataRequest.decode(struct.pack(">i", -1), 1).topics is None


def test_invalid_utf8_is_replaced_as_in_java() -> None:
    request = MetadataRequest.decode(struct.pack(">ih", 1, 3) + b"a\xffb", 1)
    assert request.topics is not None
    assert request.topics[0].name == "a�b"


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = MetadataRequest(topics=None).encode(9)
    assert plain.endswith(b"\x00")
    extra = plain[:-1] + b"\x02" + b"\x63\x03abc" + b"\xac\x02\x00"
    assert MetadataRequest.decode(extra, 9) == MetadataRequest.decode(plain, 9)
    for bad in (b"\x02\x63\x03abc", b"\x01\x63\x04abc", b"\x01\x63", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(ProtocolError):
            MetadataRequest.decode(plain[:-1] + bad, 9)


def test_tagged_fields_must_fill_their_size_and_belong_to_the_version() -> None:
    plain = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]).encode(12)
    cluster = b"\x01\x00\x03\x02ab"
    with pytest.raises(ProtocolError, match="cluster_id does not fill its size"):
        FetchRequest.decode(plain[:-1] + cluster, 12)
    with pytest.raises(ProtocolError, match="tag 1 is not valid in version 12"):
        FetchRequest.decode(plain[:-1] + b"\x01\x01\x0d" + bytes(13), 12)


@given(st.binary(max_size=60))
def test_noise_is_rejected_or_decoded(noise: bytes) -> None:
    for known in apis().values():
        for version in (known.versions.lowest, known.versions.highest):
            attempt(known.request, version, noise)
    with contextlib.suppress(ProtocolError):
        read_request(noise)
