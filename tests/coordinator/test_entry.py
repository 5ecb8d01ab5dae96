from __future__ import annotations

import pytest

from barnabas.coordinator.entry import GROUP, TRANSACTION, Entry, Unknown, decode, encode
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from barnabas.protocol.records.transaction_log import TransactionLogKey

VALUE = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol=None,
    leader=None,
    current_state_timestamp=5,
    members=[],
)


def test_an_entry_round_trips() -> None:
    entry = Entry(GroupMetadataKey(group="g"), VALUE, 3)
    key, value = encode(entry)
    assert key == b"\x00\x02\x00\x01g"
    assert value is not None
    assert value[:2] == b"\x00\x03"
    assert decode(key, value, GROUP) == entry


def test_a_tombstone_has_no_value() -> None:
    entry = Entry(OffsetCommitKey(group="g", topic="t", partition=1), None)
    key, value = encode(entry)
    assert value is None
    assert decode(key, None, GROUP) == entry


def test_each_coordinator_has_its_own_key_types() -> None:
    key, _ = encode(Entry(TransactionLogKey(transactional_id="t"), None))
    assert decode(key, None, TRANSACTION) == Entry(TransactionLogKey(transactional_id="t"), None)
    assert isinstance(decode(key, None, GROUP), Unknown)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00"),
        (b"", None),
        (b"\x00", None),
        (b"\x7f\xff\x00\x01g", None),
        (b"\x00\x02\x00\x05g", None),
        (b"\x00\x02\x00\x01g", b""),
        (b"\x00\x02\x00\x01g", b"\x00\x63" + bytes(40)),
        (b"\x00\x02\x00\x01g", b"\x00\x03\x00\x08con"),
    ],
)
def test_an_unreadable_record_is_unknown_with_a_reason(key: bytes | None, value: bytes | None) -> None:
    decoded = decode(key, value, GROUP)
    assert isinstance(decoded, Unknown)
    assert decoded.reason
