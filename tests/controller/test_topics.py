"""What the request table does not cover: limits, policies, disabled deletion."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.controller.configs.policies import NewTopic
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.records.metadata import PartitionRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.lab import Lab

SET, DELETE, APPEND, SUBTRACT = range(4)


def _alter(*changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2,
        resource_name="t",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=op, value=value)
            for name, op, value in changes
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


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


def test_policies_can_reject_requests() -> None:
    # KIP-108, KIP-133
    created: list[NewTopic] = []

    def on_create(topic: NewTopic) -> None:
        created.append(topic)
        if topic.partitions == 13:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "not thirteen")

    def on_alter(kind: int, name: str, altered: Mapping[str, str | None]) -> None:
        if altered.get("retention.ms") == "1":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{name} must stay")

    lab = Lab(create_topic_policy=on_create, alter_config_policy=on_alter)
    lab.join()
    refused = lab.send(creation("t", partitions=13), CreateTopicsResponse).topics[0]
    assert (refused.error_code, refused.error_message) == (ErrorCode.POLICY_VIOLATION, "not thirteen")
    assert lab.send(creation("t", partitions=12), CreateTopicsResponse).topics[0].error_code == 0
    assert created[-1] == NewTopic("t", 12, 1, None, {})
    reply = lab.send(_alter(("retention.ms", SET, "1")), IncrementalAlterConfigsResponse)
    assert reply.responses[0].error_message == "t must stay"


@pytest.mark.trap
def test_incremental_changes_set_delete_append_and_subtract() -> None:
    """Trap 16: IncrementalAlterConfigs with SET, DELETE, APPEND, SUBTRACT."""
    lab = Lab()
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)

    def options() -> dict[str, str]:
        return dict(lab.image.configs_of(2, "t"))

    lab.send(_alter(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")), Message)
    assert options() == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    lab.send(_alter(("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")), Message)
    assert options() == {"cleanup.policy": "compact"}
    lab.send(_alter(("cleanup.policy", APPEND, "compact,delete")), Message)
    assert options() == {"cleanup.policy": "compact,delete"}
    lab.send(_alter(("cleanup.policy", DELETE, None)), Message)
    assert options() == {}


def test_config_values_have_a_maximum_length() -> None:
    lab = Lab()
    lab.join()
    lab.send(creation("t"), CreateTopicsResponse)
    reply = lab.send(_alter(("retention.ms", SET, "9" * 40_000)), IncrementalAlterConfigsResponse)
    assert reply.responses[0].error_message == (
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    )


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
