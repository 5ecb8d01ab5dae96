"""Records become text."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.cli.console.deserializers import deserializer
from barnabas.cli.console.formatters import formatter
from barnabas.cli.framework.exits import UsageError
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue

PACKAGE = "org.apache.kafka.common.serialization."


def record(
    key: Any = b"k",
    value: Any = b"v",
    headers: Any = (("h", b"x"), ("n", None)),
    timestamp_type: Any = 0,
    leader_epoch: Any = 3,
) -> Any:
    return ConsumerRecord("t", 2, leader_epoch, 7, 1700000000000, timestamp_type, key, value, headers)


def written(given: ConsumerRecord, name: str = "DefaultMessageFormatter", **properties: str) -> str:
    out = io.BytesIO()
    options = {key.replace("_", "."): value for key, value in properties.items()}
    formatter(name, options, "tool").write(given, out)
    return out.getvalue().decode()


def test_only_the_value_by_default() -> None:
    assert written(record()) == "v\n"


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("timestamp", "CreateTime:1700000000000"),
        ("partition", "Partition:2"),
        ("offset", "Offset:7"),
        ("delivery", "Delivery:NOT_PRESENT"),
        ("epoch", "Epoch:3"),
        ("headers", "h:x,n:null"),
        ("key", "k"),
    ],
)
def test_each_part_stands_before_the_value_or_alone(part: str, shown: str) -> None:
    assert written(record(), **{f"print_{part}": "true"}) == f"{shown}\tv\n"
    assert written(record(), **{f"print_{part}": "TRUE ", "print_value": "false"}) == f"{shown}\n"


def test_all_parts_in_order_with_custom_separators() -> None:
    wanted = dict.fromkeys(
        (f"print_{part}" for part in ("timestamp", "partition", "offset", "epoch", "headers", "key")), "true"
    )
    separators = {"key_separator": "|", "line_separator": ".", "headers_separator": "&", "null_literal": "-"}
    shown = written(record(key=None, timestamp_type=1), **wanted, **separators)
    assert shown == "LogAppendTime:1700000000000|Partition:2|Offset:7|Epoch:3|h:x&n:-|-|v."


def test_missing_topics_and_groups_are_reported() -> None:
    given = record(headers=(), timestamp_type=-1, leader_epoch=-1)
    options = {"print_timestamp": "true", "print_epoch": "true", "print_headers": "true"}
    assert written(given, **options) == "NO_TIMESTAMP\tEpoch:NOT_PRESENT\tNO_HEADERS\tv\n"


def test_no_part_is_selected() -> None:
    assert written(record(), print_value="false") == ""
    assert written(record(), "kafka.tools.NoOpMessageFormatter") == ""


def test_the_logging_formatter_prints_on_stderr_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(record(value=None), "org.apache.kafka.tools.consumer.LoggingMessageFormatter") == "null\n"
    assert capsys.readouterr().err == "CreateTime:1700000000000, key:k, value:null\n"


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("String", "ä".encode(), "ä"),
        ("String", b"\xff", "\N{REPLACEMENT CHARACTER}"),
        ("ByteArray", b"as it is", "as it is"),
        ("Bytes", b"a\\\x01", "a\\x5C\\x01"),
        ("Boolean", b"\1", "true"),
        ("Short", b"\xff\xfe", "-2"),
        ("Integer", b"\0\0\1\0", "256"),
        ("Long", b"\xff" * 8, "-1"),
        ("Float", struct.pack(">f", 0.1), "0.1"),
        ("Float", struct.pack(">f", 1e10), "1.0E10"),
        ("Double", struct.pack(">d", 1234567.5), "1234567.5"),
        ("Double", struct.pack(">d", 12345678.0), "1.2345678E7"),
        ("Double", struct.pack(">d", -0.0005), "-5.0E-4"),
        ("Double", struct.pack(">d", 100.0), "100.0"),
        ("Double", struct.pack(">d", 0.0), "0.0"),
        ("Double", struct.pack(">d", float("nan")), "NaN"),
        ("Double", struct.pack(">d", float("-inf")), "-Infinity"),
        ("UUID", b"123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_deserialisers_by_both_names(name: str, data: Any, shown: str) -> None:
    for given in (name, f"{PACKAGE}{name}Deserializer"):
        assert written(record(value=data), value_deserializer=given) == f"{shown}\n"


def test_a_text_in_another_encoding() -> None:
    read = deserializer(
        {"key.deserializer": "String", "key.deserializer.key.deserializer.encoding": "latin-1"},
        "key.deserializer",
        "tool",
    )
    assert read(b"\xe4") == "ä".encode()


def test_headers_have_a_deserialiser_too() -> None:
    given = record(headers=(("n", b"\0\0\0\5"),))
    options = {"print_headers": "true", "headers_deserializer": "Integer", "print_value": "false"}
    assert written(given, **options) == "n:5\n"


@pytest.mark.parametrize(("name", "data"), [("Integer", b"12"), ("Boolean", b"\2"), ("UUID", b"no")])
def test_bytes_of_another_type_raise(name: str, data: bytes) -> None:
    with pytest.raises(ValueError):
        written(record(value=data), value_deserializer=name)


def test_classes_that_would_need_java_are_refused() -> None:
    with pytest.raises(UsageError, match=r"com\.example\.Mine cannot be loaded \(there is no Java\)"):
        formatter("com.example.Mine", {}, "tool")
    with pytest.raises(UsageError, match=r"key\.deserializer=com\.example\.Mine cannot be loaded"):
        formatter("DefaultMessageFormatter", {"key.deserializer": "com.example.Mine"}, "tool")
    with pytest.raises(UsageError, match="unknown encoding"):
        properties = {"key.deserializer": "String", "key.deserializer.deserializer.encoding": "nonsense"}
        formatter("DefaultMessageFormatter", properties, "tool")


OFFSET = b"\0\1" + OffsetCommitKey(group="g", topic="t", partition=1).encode(0)
GROUP = b"\0\2" + GroupMetadataKey(group="g").encode(0)
GROUP_VALUE = b"\0\3" + GroupMetadataValue(
    protocol_type="consumer", generation=1, protocol="range", leader=None, members=[]
).encode(3)


def test_offsets_and_groups_each_by_their_own_formatter() -> None:
    old = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
    shown = '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":1}},"value":null}'
    assert written(record(key=OFFSET, value=None), old) == shown
    assert written(record(key=OFFSET, value=None), "GroupMetadataMessageFormatter") == ""
    group = written(record(key=GROUP, value=GROUP_VALUE), "GroupMetadataMessageFormatter")
    assert group.startswith(
        '{"key":{"type":2,"data":{"group":"g"}},"value":{"version":3,"data":{"protocolType"'
    )
    assert written(record(key=GROUP, value=GROUP_VALUE), old) == ""
    assert written(record(key=None), old) == ""


def test_the_transaction_log() -> None:
    key = b"\0\0" + TransactionLogKey(transactional_id="x").encode(0)
    value = b"\0\0" + TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=60000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=-1,
    ).encode(0)
    shown = written(record(key=key, value=value), "TransactionLogMessageFormatter")
    assert shown.startswith('{"key":{"type":0,"data":{"transactionalId":"x"}},"value":{"version":0,"data":{')


def test_an_undecodable_internal_record_is_reported_with_its_offset() -> None:
    with pytest.raises(ValueError, match="Could not read record at offset 7 due to: "):
        written(record(key=OFFSET, value=b"\0\1\0"), "OffsetsMessageFormatter")
