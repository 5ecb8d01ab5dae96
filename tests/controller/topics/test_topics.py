"""Topics: limits, deletion and new partitions, as far as the request table does not cover them."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.metadata.snapshot import record_version, records_of
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.records.metadata import PartitionRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.lab import Lab


def test_too_many_partitions_are_rejected_before_placement() -> None:
    lab = Lab()
    lab.join()
    with pytest.raises(KafkaError) as refused:
        lab.send(creation("t", partitions=2**31 - 1), CreateTopicsResponse)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert refused.value.message == "Excessively large number of partitions per request."
    lab.send(creation("t"), CreateTopicsResponse)
    growth = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name="t", count=2**31 - 1, assignments=None)],
        timeout_ms=1,
        validate_only=False,
    )
    with pytest.raises(KafkaError) as refused:
        lab.send(growth, CreatePartitionsResponse)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_the_records_of_a_request_must_fit_in_one_batch() -> None:
    lab = Lab()
    lab.join()
    with pytest.raises(KafkaError) as refused:
        lab.send(creation(*(f"t{number}" for number in range(5_001))), CreateTopicsResponse)
    assert refused.value.message == "Unable to perform excessively large batch operation."
    assert not lab.image.topics


def test_topics_are_created_in_one_batch_and_validate_only_writes_nothing() -> None:
    lab = Lab()
    lab.join()
    assert lab.records_of(creation("a", "b", validate_only=True)) == []
    kinds = [type(record) for record in lab.records_of(creation("a", "b", partitions=2))]
    assert kinds == [TopicRecord, PartitionRecord, PartitionRecord] * 2


def test_topic_creation_requires_a_live_broker() -> None:
    lab = Lab()
    message = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
    assert lab.send(creation("t"), CreateTopicsResponse).topics[0].error_message == message
    lab.join(unfence=False)
    assert lab.send(creation("t"), CreateTopicsResponse).topics[0].error_message == message


def test_topic_deletion_can_be_disabled() -> None:
    lab = Lab(delete_topic_enable="false")
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)
    request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
    for version, code in [(2, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)]:
        with pytest.raises(KafkaError) as refused:
            lab.send(request, DeleteTopicsResponse, version)
        assert refused.value.code is code
    assert "t" in lab.image.topic_ids


def test_topics_are_deleted_by_name_and_id_with_their_configs() -> None:
    lab = Lab()
    lab.join()
    lab.send(creation("a", "b", configs={"retention.ms": "5"}), CreateTopicsResponse)
    by_id = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=lab.image.topic_ids["a"])
    reply = lab.send(DeleteTopicsRequest(topics=[by_id], timeout_ms=1), DeleteTopicsResponse)
    assert [(response.name, response.error_code) for response in reply.responses] == [("a", 0)]
    lab.send(DeleteTopicsRequest(topic_names=["b"], timeout_ms=1), DeleteTopicsResponse, 5)
    assert not lab.image.topics
    assert not [name for kind, name in lab.image.configs if kind == 2]
    # The names are free again, including colliding ones.
    assert lab.send(creation("a", "b"), CreateTopicsResponse).topics[0].error_code == 0


def test_name_and_id_of_the_same_topic_are_rejected() -> None:
    lab = Lab()
    lab.join()
    lab.send(creation("a"), CreateTopicsResponse)
    state = DeleteTopicsRequest.DeleteTopicState
    both = [state(name=None, topic_id=lab.image.topic_ids["a"]), state(name="a", topic_id=ZERO_UUID)]
    reply = lab.send(DeleteTopicsRequest(topics=both, timeout_ms=1), DeleteTopicsResponse)
    assert [response.error_message for response in reply.responses] == [
        "The provided topic name maps to an ID that was already supplied."
    ]
    assert "a" in lab.image.topic_ids


@pytest.mark.trap
def test_create_partitions_returns_a_result_for_each_topic() -> None:
    """Trap 19: CreatePartitions result not empty."""
    lab = Lab()
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)
    topic = CreatePartitionsRequest.Topic
    named = [topic(name=name, count=3, assignments=None) for name in ("t", "nope", "dup", "dup")]
    request = CreatePartitionsRequest(topics=named, timeout_ms=1, validate_only=False)
    results = lab.send(request, CreatePartitionsResponse).results
    assert {result.name: result.error_code for result in results} == {
        "t": 0,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "dup": ErrorCode.INVALID_REQUEST,
    }
    assert len(lab.image.topics[lab.image.topic_ids["t"]].partitions) == 3


def test_a_topic_that_is_named_twice_does_not_keep_the_others_from_being_deleted() -> None:
    lab = Lab()
    lab.join()
    for name in ("a", "b", "c"):
        lab.send(creation(name), CreateTopicsResponse)
    names = ["a", "a", "b", "nope", "c"]
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=1000)
    results = lab.send(request, DeleteTopicsResponse, 6).responses
    codes = {result.name: result.error_code for result in results}
    assert codes == {
        "a": ErrorCode.INVALID_REQUEST,
        "b": 0,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "c": 0,
    }
    assert set(lab.image.topic_ids) == {"a"}


@pytest.mark.parametrize("release", ["3.3", "3.6", "3.7", "4.1"])
def test_partitions_can_be_written_at_every_level(release: str) -> None:
    """Below 3.7 a record has no directories (KIP-858): no topic could be created there, nor a snapshot."""
    lab = Lab(release)
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)
    growth = CreatePartitionsRequest.Topic(name="t", count=2, assignments=None)
    lab.send(CreatePartitionsRequest(topics=[growth], timeout_ms=1, validate_only=False), Message)
    level = lab.image.metadata_version
    for record in [*lab.written, *records_of(lab.image)]:
        write_metadata_record(record, record_version(record, level))
