"""The policies for new topics and altered configs (KIP-108, KIP-133)."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.configs.policies import NewTopic
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.configs.test_configs import SET, alter
from tests.controller.lab import Lab


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
    reply = lab.send(alter(("retention.ms", SET, "1")), IncrementalAlterConfigsResponse)
    assert reply.responses[0].error_message == "t must stay"
