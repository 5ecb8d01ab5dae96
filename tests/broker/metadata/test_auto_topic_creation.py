"""Automatic creation of topics."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.metadata.auto_topic_creation import AutoTopics, creatable_topic
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.front_world import FakeBroker, call_of, node_of

CALL = call_of(3, 12)


def test_a_topic_is_requested_once_at_a_time() -> None:
    broker: Any = FakeBroker()
    promise: Promise[Any] = Promise()
    broker.metadata.answers[CreateTopicsRequest] = promise
    topics = AutoTopics(broker)
    for _ in range(3):
        assert topics.create(["a"], CALL) == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(broker.metadata.asked) == 1
    promise.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    # After a failure the next request retries.
    topics.create(["a"], CALL)
    assert len(broker.metadata.asked) == 2


def test_a_refusal_by_the_controller_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker: Any = FakeBroker()
    promise: Promise[Any] = Promise()
    broker.metadata.answers[CreateTopicsRequest] = promise
    AutoTopics(broker).create(["a"], CALL)
    result = CreateTopicsResponse.CreatableTopicResult(name="a", error_code=44, error_message="not here")
    with caplog.at_level(logging.INFO):
        promise.set(CreateTopicsResponse(throttle_time_ms=0, topics=[result]))
    assert "not here" in caplog.text


def test_a_refused_coordinator_topic_is_logged_once_with_advice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker: Any = FakeBroker()
    topics = AutoTopics(broker)
    name = "__consumer_offsets"
    refused = CreateTopicsResponse.CreatableTopicResult(name=name, error_code=38, error_message="Too few.")
    for _ in range(3):
        promise: Promise[Any] = Promise()
        broker.metadata.answers[CreateTopicsRequest] = promise
        topics.create_internal(name)
        promise.set(CreateTopicsResponse(throttle_time_ms=0, topics=[refused]))
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.endswith(
        "was not created: Too few. (INVALID_REPLICATION_FACTOR)"
        " Set offsets.topic.replication.factor to what this cluster has."
    )


def test_settings_of_created_topics() -> None:
    settings = node_of(num_partitions="4", default_replication_factor="1").settings
    plain = creatable_topic("a", settings)
    assert (plain.num_partitions, plain.replication_factor, plain.configs) == (4, 1, [])
    offsets = creatable_topic("__consumer_offsets", settings)
    assert (offsets.num_partitions, offsets.replication_factor) == (50, 3)
    assert {one.name: one.value for one in offsets.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    transactions = creatable_topic("__transaction_state", settings)
    assert {one.name: one.value for one in transactions.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    shares = creatable_topic("__share_group_state", settings)
    assert shares.num_partitions == 50
    assert {one.name for one in shares.configs} == {
        "cleanup.policy",
        "compression.type",
        "min.insync.replicas",
        "retention.ms",
        "segment.bytes",
    }


def test_a_coordinators_topic_that_is_refused_for_something_else_blames_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every failure of an internal topic was blamed on the replication factor."""
    broker: Any = FakeBroker()
    name = "__consumer_offsets"
    refused = CreateTopicsResponse.CreatableTopicResult(name=name, error_code=44, error_message="Not here.")
    promise: Promise[Any] = Promise()
    broker.metadata.answers[CreateTopicsRequest] = promise
    AutoTopics(broker).create_internal(name)
    promise.set(CreateTopicsResponse(throttle_time_ms=0, topics=[refused]))
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.endswith("was not created: Not here. (POLICY_VIOLATION)")
    assert "replication.factor" not in line


def test_names_of_topics_that_were_not_created_take_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    """F7: client-given names filled the log and forged its lines."""
    broker: Any = FakeBroker()
    promise: Promise[Any] = Promise()
    broker.metadata.answers[CreateTopicsRequest] = promise
    AutoTopics(broker).create([f"t{number}" for number in range(1_000)], call_of(3, 12))
    promise.fail(RuntimeError("no\nroom"))
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == (
        "the topics t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 990 more were not created automatically: no\\nroom"
    )
