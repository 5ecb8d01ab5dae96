"""Committed offsets as bytes: all versions are read like the codec reads them, corrupt ones are rejected."""

from __future__ import annotations

import pytest

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.coordinator.group.offsets.values import Committed, check, pack, unpack, value_version
from barnabas.metadata.features import metadata_version_named
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import write_versioned
from barnabas.protocol.records.group import OffsetCommitValue

TOPIC_ID = Uuid.from_words(1, 2)


def value(metadata: str = "", topic_id: Uuid = ZERO_UUID, expire_timestamp: int = -1) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=2**40,
        leader_epoch=7,
        metadata=metadata,
        commit_timestamp=1_700_000_000_000,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "x", "é" * 70, "a" * 4096])
@pytest.mark.parametrize("topic_id", [ZERO_UUID, TOPIC_ID])
def test_packed_values_match_the_codec(version: int, metadata: str, topic_id: Uuid) -> None:
    packed = pack(value(metadata, topic_id, 1_700_000_009_999), version)
    assert packed == write_versioned(value(metadata, topic_id, 1_700_000_009_999), version)
    assert unpack(packed) == Committed(
        2**40,
        7 if version >= 3 else -1,
        metadata,
        1_700_000_000_000,
        1_700_000_009_999 if version == 1 else -1,
        topic_id if version >= 4 else ZERO_UUID,
    )
    check(packed)


def test_a_plain_value_takes_24_bytes() -> None:
    assert len(pack(value(), 4)) == len(pack(value(), 3)) == 24


@pytest.mark.parametrize("version", range(5))
def test_a_corrupt_value_is_rejected(version: int) -> None:
    packed = pack(value("some text"), version)
    for size in range(len(packed)):
        with pytest.raises(ProtocolError):
            check(packed[:size])
    with pytest.raises(ProtocolError):
        check(b"\0\5" + packed[2:])


def test_another_value_of_the_size_of_a_plain_one() -> None:
    plain = pack(value(), 4)
    with pytest.raises(ProtocolError):
        check(plain[:14] + b"\x09" + plain[15:])
    with pytest.raises(ProtocolError):
        check(plain[:23] + b"\x01")


def test_trailing_bytes_of_later_releases_are_ignored() -> None:
    assert unpack(pack(value("t"), 3) + b"more").metadata == "t"


@pytest.mark.parametrize(
    ("release", "expires", "version"),
    [
        ("3.3-IV3", False, 3),
        ("3.9-IV0", False, 3),
        ("3.9-IV0", True, 1),
        ("4.0-IV0", False, 4),
        ("4.1-IV1", False, 4),
        ("4.1-IV1", True, 1),
    ],
)
def test_the_version_follows_the_features(release: str, expires: bool, version: int) -> None:
    assert value_version(metadata_version_named(release).level, expires=expires) == version
