"""JSON as Apache Kafka's tools print it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.json_form import from_json, java_double, json_text, to_json
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.metadata import (
    ClientQuotaRecord,
    PartitionChangeRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.records.quorum_state import QuorumStateData

TOPIC = Uuid.parse("XKaZLwFVQtyJTewJTKoJIA")


def test_only_tagged_fields_that_differ_are_shown() -> None:
    record = PartitionChangeRecord(partition_id=3, topic_id=TOPIC, isr=[], leader=-1)
    expected = '{"partitionId":3,"topicId":"XKaZLwFVQtyJTewJTKoJIA","isr":[],"leader":-1}'
    assert json_text(to_json(record, 0)) == expected


def test_bytes_are_base64_and_letters_stay() -> None:
    record = UserScramCredentialRecord(
        name="ä\n", mechanism=1, salt=b"\xff\xfe", stored_key=b"", server_key=b"k", iterations=4096
    )
    assert json_text(to_json(record, 0)) == (
        '{"name":"ä\\n","mechanism":1,"salt":"//4=","storedKey":"","serverKey":"aw==","iterations":4096}'
    )
    assert from_json(UserScramCredentialRecord, to_json(record, 0), 0) == record


def test_records_are_written_in_full() -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(b"abc"))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    shape = to_json(request, 9)
    assert shape["topicData"][0]["partitionData"] == [{"index": 0, "records": "YWJj"}]
    assert from_json(ProduceRequest, shape, 9) == request


def test_a_value_that_a_version_cannot_carry_is_rejected() -> None:
    state = QuorumStateData(voted_directory_id=TOPIC)
    with pytest.raises(ProtocolError, match="cannot carry voted_directory_id") as caught:
        to_json(state, 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert to_json(state, 1)["votedDirectoryId"] == str(TOPIC)
    with pytest.raises(ProtocolError, match="0-1 are known"):
        to_json(state, 2)


GOOD: dict[str, Any] = {
    "entity": [{"entityType": "user", "entityName": None}],
    "key": "k",
    "value": 1.0,
    "remove": False,
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"key": None}, "key must be a text"),
        ({"key": 5}, "key must be a text"),
        ({"value": "1"}, "value must be a number"),
        ({"value": True}, "value must be a number"),
        ({"remove": 0}, "remove must be true or false"),
        ({"entity": {}}, "entity must be a list"),
        ({"entity": ["x"]}, "entity must be an object"),
        ({"entity": [{"entityType": "user"}]}, "entity lacks entityName"),
    ],
)
def test_wrong_types_are_rejected_by_name(change: dict[str, Any], text: str) -> None:
    assert from_json(ClientQuotaRecord, GOOD, 0).entity[0].entity_name is None
    with pytest.raises(ProtocolError, match=text):
        from_json(ClientQuotaRecord, GOOD | change, 0)


@pytest.mark.parametrize(
    "shape",
    [
        5,
        {},
        {"leaderId": 2**31, "leaderEpoch": 0, "votedId": 0, "votedDirectoryId": str(TOPIC)},
        {"leaderId": True, "leaderEpoch": 0, "votedId": 0, "votedDirectoryId": str(TOPIC)},
        {"leaderId": 1.0, "leaderEpoch": 0, "votedId": 0, "votedDirectoryId": str(TOPIC)},
        {"leaderId": 1, "leaderEpoch": 0, "votedId": 0, "votedDirectoryId": "short"},
        {"leaderId": 1, "leaderEpoch": 0, "votedId": 0, "votedDirectoryId": "!" * 22},
    ],
)
def test_a_damaged_quorum_state_is_rejected(shape: Any) -> None:
    with pytest.raises(ProtocolError):
        from_json(QuorumStateData, shape, 1)


def test_unknown_names_are_ignored() -> None:
    shape = {
        "leaderId": 1,
        "leaderEpoch": 2,
        "votedId": -1,
        "votedDirectoryId": str(TOPIC),
        "data_version": 1,
    }
    assert from_json(QuorumStateData, shape, 1).leader_epoch == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1048576.0, "1048576.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (10485760.0, "1.048576E7"),
        (-12345678.5, "-1.23456785E7"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (1.5e300, "1.5E300"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_look_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text
    assert json_text([value]) == f"[{text}]"
