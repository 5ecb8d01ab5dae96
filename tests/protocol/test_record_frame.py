"""Internal records written by Apache Kafka: decoded, printed as its dump-log prints them, and encoded
again."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.json_form import from_json, json_text, to_json
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import (
    coordinator_records,
    metadata_records,
    read_coordinator_key,
    read_metadata_record,
    read_versioned,
    remote_log_records,
    write_coordinator_key,
    write_metadata_record,
    write_versioned,
)
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.records.control import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.metadata import FeatureLevelRecord, NoOpRecord
from barnabas.protocol.records.quorum_state import QuorumStateData
from barnabas.protocol.records.remote_log import RemotePartitionDeleteMetadataRecord
from barnabas.protocol.schema import Message

# The names of control records in dump-log.
CONTROL: dict[str, type[Message]] = {
    "LeaderChange:": LeaderChangeMessage,
    "SnapshotHeader": SnapshotHeaderRecord,
    "SnapshotFooter": SnapshotFooterRecord,
    "KRaftVersion": KRaftVersionRecord,
    "KRaftVoters": VotersRecord,
}


@pytest.fixture(scope="module")
def recorded(data: Path) -> Any:
    """Keys and values out of Apache Kafka's logs, with the text that its dump-log showed for them."""
    return json.loads((data / "protocol" / "records.json").read_text("utf-8"))


def of_kind(recorded: Any, kind: str) -> list[tuple[bytes | None, bytes | None, str]]:
    return [
        (*(None if row[part] is None else bytes.fromhex(row[part]) for part in ("key", "value")), row["text"])
        for row in recorded
        if row["kind"] == kind
    ]


def upper_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def test_metadata_records(recorded: Any) -> None:  # M-C3
    rows = of_kind(recorded, "metadata")
    types = set()
    for _, value, text in rows:
        assert value is not None
        record, version = read_metadata_record(value)
        kind = upper_case(type(record).__name__)
        shown = {"type": kind, "version": version, "data": to_json(record, version)}
        assert f"payload: {json_text(shown)}" == text
        assert write_metadata_record(record, version) == value
        assert from_json(type(record), json.loads(text[9:])["data"], version) == record
        types.add((kind, version))
    assert len(rows) == 60
    assert len(types) == 21


def expanded(shape: dict[str, Any]) -> dict[str, Any]:
    """dump-log shows the contents of the consumer protocol's messages instead of their bytes."""
    for member in shape.get("members", []):
        for name, cls in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            message, version = read_versioned(cls, base64.b64decode(member[name]))
            member[name] = to_json(message, version)
    return shape


@pytest.mark.parametrize(("coordinator", "count"), [("group", 8), ("transaction", 8)])
def test_records_of_coordinators(recorded: Any, coordinator: str, count: int) -> None:
    rows = of_kind(recorded, f"coordinator {coordinator}")
    for raw_key, raw_value, text in rows:
        assert raw_key is not None
        key = read_coordinator_key(raw_key, coordinator)
        shown_key: dict[str, Any] = {"type": str(key.schema.key), "data": to_json(key, 0)}
        assert write_coordinator_key(key) == raw_key
        if raw_value is None:
            assert f"key: {json_text(shown_key)} payload: <DELETE>" == text
            continue
        _, value_class = coordinator_records(coordinator)[int(shown_key["type"])]
        value, version = read_versioned(value_class, raw_value)
        shown = {"version": str(version), "data": expanded(to_json(value, version))}
        assert f"key: {json_text(shown_key)} payload: {json_text(shown)}" == text
        assert write_versioned(value, version) == raw_value
    assert len(rows) == count


def test_control_records(recorded: Any) -> None:
    seen = set()
    for _, value, text in of_kind(recorded, "control"):
        assert value is not None
        name, _, shape = text.partition(" ")
        if name == "endTxnMarker:":
            marker, version = read_versioned(EndTxnMarker, value)
            assert f"COMMIT coordinatorEpoch: {marker.coordinator_epoch}" == shape
            assert write_versioned(marker, version) == value
        elif name in CONTROL:
            record = CONTROL[name].decode(value, 0)
            assert json_text(to_json(record, 0)) == shape
            assert record.encode(0) == value
        seen.add(name)
    assert seen >= {*CONTROL, "endTxnMarker:"}


QUORUM_STATES = {
    0: '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}',
    1: '{"leaderId":103,"leaderEpoch":3,"votedId":103,"votedDirectoryId":"ChDEvQFfTWOKBYVH37DLIg","data_version":1}',
}


@pytest.mark.parametrize(("version", "text"), QUORUM_STATES.items())
def test_quorum_state_files(version: int, text: str) -> None:
    state = from_json(QuorumStateData, json.loads(text), version)
    assert json_text({**to_json(state, version), "data_version": version}) == text


def test_consumer_protocol(data: Path) -> None:
    vectors = json.loads((data / "protocol" / "consumer-protocol.json").read_text("utf-8"))
    assert len(vectors) == 8
    for vector in vectors:
        raw = bytes.fromhex(vector["hex"])
        is_subscription = vector["what"].startswith("subscription")
        cls: type[Message] = ConsumerProtocolSubscription if is_subscription else ConsumerProtocolAssignment
        message, version = read_versioned(cls, raw)
        assert vector["what"].endswith(f" v{version}")
        assert write_versioned(message, version) == raw
        if isinstance(message, ConsumerProtocolSubscription):
            assert message.topics == ["t1", "t2"]
            assert message.user_data == b"ud"
            assert message.rack_id == ("rack-a" if version == 3 else None)
            assert message.generation_id == (5 if version >= 2 else -1)
        elif isinstance(message, ConsumerProtocolAssignment):
            assert {part.topic: part.partitions for part in message.assigned_partitions} == {
                "t1": [0, 2],
                "t2": [1],
            }


def test_all_kinds_are_found() -> None:
    assert len(metadata_records()) == 26
    assert sorted(remote_log_records()) == [0, 1, 2, 3]
    assert len(coordinator_records("group")) == 22
    assert sorted(coordinator_records("share")) == [0, 1]
    assert sorted(coordinator_records("transaction")) == [0]
    for coordinator in ("group", "share", "transaction"):
        for key, value in coordinator_records(coordinator).values():
            assert key.__name__.removesuffix("Key") == value.__name__.removesuffix("Value")


def test_records_of_the_remote_log_have_the_same_framing() -> None:
    record = RemotePartitionDeleteMetadataRecord.schema.new()
    written = write_metadata_record(record, 0)
    assert read_metadata_record(written, remote_log_records()) == (record, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "announced"),
        (b"\x00\x14\x00\x00", "frame version 0"),
        (b"\x02\x14\x00\x00", "frame version 2"),
        (b"\x01\x7f\x00\x00", "type 127"),
        (b"\x01\x14\x09\x00", "version 9"),
        (b"\x01\xac\x02\x00\x00", "type 300"),
        (write_metadata_record(NoOpRecord(), 0) + b"x", "left over"),
        (
            write_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=1), 0)[:-3],
            "cannot read",
        ),
    ],
)
def test_bad_metadata_records_are_rejected(value: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        read_metadata_record(value)


def test_numbers_before_a_record_may_have_more_bytes_than_they_need() -> None:
    record = NoOpRecord()
    assert read_metadata_record(b"\x81\x00\x94\x00\x80\x00" + record.encode(0)) == (record, 0)
    assert read_metadata_record(memoryview(write_metadata_record(record, 0))) == (record, 0)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x63abc", b"\xff\xff"])
def test_bad_keys_are_rejected(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_coordinator_key(key, "group")


def test_messages_without_a_key_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="no record of the metadata log"):
        write_metadata_record(QuorumStateData(), 0)
    with pytest.raises(ProtocolError, match="no key"):
        write_coordinator_key(QuorumStateData())
