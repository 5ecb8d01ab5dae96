"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: Apache Kafka 4.1.0's responses."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.config import BROKER, TOPIC
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.records import metadata as records
from tests.broker.handlers.test_metadata import register, topic
from tests.broker.worlds.front_world import Denying, FakeBroker, call_of, settled

TOPIC_TYPE, BROKER_TYPE, LOGGER_TYPE, METRICS_TYPE, GROUP_TYPE = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def broker() -> Any:
    broker = FakeBroker()
    register(broker, 1)
    topic(broker, "alpha")
    return broker


def config(broker: Any, kind: int, resource: str, name: str, value: str | None) -> None:
    broker.metadata.commit(
        records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    )
    wide, own = broker.image.configs_of(BROKER_TYPE, ""), broker.image.configs_of(BROKER_TYPE, "1")
    broker.layers = broker.layers.with_cluster(wide).with_broker(own)


def describe(broker: Any, kind: int, name: str, keys: list[str] | None = None, **fields: bool) -> Any:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **fields)
    return settled(describe_configs.handle(broker, request, call_of(32, 4))).results[0]


# DescribeConfigs
# ---------------------------------------------------------------------------------------------


@pytest.mark.trap
def test_every_option_of_a_topic_is_there_with_all_that_uis_need(broker: Any) -> None:
    """Trap 15: DescribeConfigs complete (sources, synonyms, types, docs)."""
    config(broker, TOPIC_TYPE, "alpha", "retention.ms", "1000")
    config(broker, BROKER_TYPE, "", "min.insync.replicas", "1")
    result = describe(broker, TOPIC_TYPE, "alpha", include_synonyms=True, include_documentation=True)
    assert (result.error_code, result.error_message) == (0, "")
    rows = {row.name: row for row in result.configs}
    assert set(rows) == {name for name, option in TOPIC.options().items() if not option.internal}
    assert all(row.documentation and row.config_type for row in rows.values())
    own = rows["retention.ms"]
    assert (own.value, own.config_source, own.read_only, own.is_sensitive, own.config_type) == (
        "1000",
        1,
        False,
        False,
        5,
    )
    assert [(one.name, one.value, one.source) for one in own.synonyms] == [("retention.ms", "1000", 1)]
    shared = rows["min.insync.replicas"]
    assert (shared.value, shared.config_source) == ("1", 3)
    assert [(one.name, one.value, one.source) for one in shared.synonyms] == [
        ("min.insync.replicas", "1", 3),
        ("min.insync.replicas", "1", 5),
    ]
    assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("1073741824", 5)


def test_only_requested_options_are_described(broker: Any) -> None:
    result = describe(broker, TOPIC_TYPE, "alpha", ["retention.ms", "nope"])
    assert [(row.name, row.synonyms, row.documentation) for row in result.configs] == [
        ("retention.ms", [], None)
    ]


def test_a_broker_describes_itself_and_the_cluster_default(broker: Any) -> None:
    config(broker, BROKER_TYPE, "", "log.cleaner.threads", "2")
    config(broker, BROKER_TYPE, "1", "log.cleaner.threads", "3")
    rows = {row.name: row for row in describe(broker, BROKER_TYPE, "1", include_synonyms=True).configs}
    assert {name for name, option in BROKER.options().items() if not option.internal} <= set(rows)
    threads = rows["log.cleaner.threads"]
    assert [(one.value, one.source) for one in threads.synonyms] == [("3", 2), ("2", 3), ("1", 5)]
    assert rows["node.id"].read_only
    assert rows["node.id"].config_source == 4
    wide = describe(broker, BROKER_TYPE, "", include_synonyms=True)
    assert [(row.name, row.value, row.config_source) for row in wide.configs] == [
        ("log.cleaner.threads", "2", 3)
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC_TYPE, "missing", 3, ""),
        (
            TOPIC_TYPE,
            "bad/name",
            17,
            "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (BROKER_TYPE, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER_TYPE, "x", 42, "Broker id must be an integer, but it is: x"),
        (LOGGER_TYPE, "", 42, "Broker id must not be empty"),
        (LOGGER_TYPE, "2", 42, "Unexpected broker id, expected 1 but received 2"),
        (METRICS_TYPE, "", 42, "Client metrics subscription name must not be empty"),
        (GROUP_TYPE, "", 42, "Group name must not be empty"),
    ],
)
def test_resources_that_cannot_be_described(
    broker: Any, kind: int, name: str, code: int, message: str
) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def test_a_kind_that_there_is_not_refuses_the_whole_request(broker: Any) -> None:
    with pytest.raises(KafkaError) as refused:
        describe(broker, 77, "x")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    resource = DescribeConfigsRequest.Resource(resource_type=77, resource_name="x", configuration_keys=None)
    answer = describe_configs.refuse(
        DescribeConfigsRequest(resources=[resource]), ErrorCode.INVALID_REQUEST, "why"
    )
    assert [(one.error_code, one.error_message, one.resource_type) for one in answer.results] == [
        (42, "why", 77)
    ]


def test_groups_client_metrics_and_loggers(broker: Any) -> None:
    config(broker, GROUP_TYPE, "g", "consumer.session.timeout.ms", "50000")
    rows = {row.name: row for row in describe(broker, GROUP_TYPE, "g", include_synonyms=True).configs}
    session, heartbeat = rows["consumer.session.timeout.ms"], rows["consumer.heartbeat.interval.ms"]
    assert (session.value, session.config_source, [one.source for one in session.synonyms]) == (
        "50000",
        8,
        [8],
    )
    assert (heartbeat.value, heartbeat.config_source) == ("5000", 5)
    config(broker, METRICS_TYPE, "sub", "interval.ms", "1000")
    described = [
        (row.name, row.value, row.config_source, row.config_type)
        for row in describe(broker, 16, "sub").configs
    ]
    assert described == [("interval.ms", "1000", 7, 3), ("match", "", 5, 7), ("metrics", "", 5, 7)]
    assert {row.config_source for row in describe(broker, METRICS_TYPE, "other").configs} == {5}
    (root,) = describe(broker, LOGGER_TYPE, "1", ["root"]).configs
    assert (root.config_source, root.config_type, root.documentation, root.read_only) == (6, 0, "", False)


def test_options_of_unauthorized_resources_are_hidden(broker: Any) -> None:
    broker.authorizer = Denying(
        (Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "alpha"),
        (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, None),
    )
    assert describe(broker, TOPIC_TYPE, "alpha").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert describe(broker, BROKER_TYPE, "1").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Changing
# -----------------------------------------------------------------------------------------------------


def change(
    broker: Any, *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], **fields: bool
) -> Any:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=op, value=value)
                    for key, op, value in options
                ],
            )
            for kind, name, options in resources
        ],
        validate_only=fields.get("validate_only", False),
    )
    answer = settled(incremental_alter_configs.handle(broker, request, call_of(44, 1)))
    return [(one.error_code, one.error_message) for one in answer.responses]


@pytest.mark.parametrize(
    ("kind", "name", "options", "code", "message"),
    [
        (2, "alpha", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        (
            2,
            "alpha",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            42,
            "Error due to duplicate config keys",
        ),
        (4, "2", [("log.cleaner.threads", SET, "2")], 42, "Unexpected broker id, expected 1, but received 2"),
        (4, "x", [("log.cleaner.threads", SET, "2")], 42, "Node id must be an integer, but it is: x"),
        (
            4,
            "",
            [("num.partitions", SET, "2")],
            42,
            "Cannot update these configs dynamically: Set(num.partitions)",
        ),
        (
            4,
            "1",
            [("log.cleaner.threads", SET, "x")],
            42,
            "Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            4,
            "",
            [("listeners", SET, "PLAINTEXT://:1")],
            42,
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
        (4, "1", [("log.cleaner.threads", 9, "1")], 42, "Unknown operations type 9"),
        (8, "1", [("no.such.logger", SET, "DEBUG")], 40, "Logger no.such.logger does not exist!"),
        (
            8,
            "1",
            [("root", SET, "NOPE")],
            40,
            "Cannot set the log level of root to NOPE as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            8,
            "1",
            [("root", APPEND, "DEBUG")],
            42,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (8, "", [("root", SET, "DEBUG")], 42, "Node id must be an integer, but it is: "),
        (0, "g", [("a", SET, "5")], 42, "Unknown resource type 0"),
        (77, "g", [("a", SET, "5")], 42, "Unknown resource type 77"),
    ],
)
def test_changes_that_the_broker_refuses(
    broker: Any, kind: int, name: str, options: Any, code: int, message: str
) -> None:
    assert change(broker, (kind, name, options)) == [(code, message)]
    assert not broker.metadata.asked


def test_a_resource_may_stand_in_a_request_once(broker: Any) -> None:
    twice = (2, "alpha", [("retention.ms", SET, "1")])
    assert change(broker, twice, twice) == [(42, "Each resource must appear at most once.")] * 2


@pytest.mark.trap
def test_valid_changes_are_forwarded_to_the_controller(broker: Any) -> None:
    """Trap 16: IncrementalAlterConfigs with SET, DELETE, APPEND, SUBTRACT."""
    good = (2, "alpha", [(f"option.{operation}", operation, "x") for operation in range(4)])
    bad = (4, "7", [("log.cleaner.threads", SET, "2")])
    assert change(broker, good, bad)[0] == (0, None)
    ((request, version, _),) = broker.metadata.asked
    (passed,) = request.resources
    assert [(one.name, one.config_operation) for one in passed.configs] == [
        (f"option.{operation}", operation) for operation in range(4)
    ]
    assert (version, request.validate_only) == (1, False)


def test_lists_of_a_broker_are_checked_as_they_would_be(broker: Any) -> None:
    assert change(broker, (4, "1", [("log.cleanup.policy", APPEND, "compact")])) == [(0, None)]
    assert change(broker, (4, "1", [("log.cleanup.policy", SUBTRACT, "delete")])) == [(0, None)]
    ((code, message),) = change(broker, (4, "1", [("log.cleaner.threads", APPEND, "1")]))
    assert code == ErrorCode.INVALID_CONFIG
    assert "log.cleaner.threads" in (message or "")


def test_an_option_that_is_no_option_may_be_set_on_a_broker(broker: Any) -> None:
    """As Apache Kafka allows it: a plug-in may read it."""
    assert change(broker, (4, "1", [("unknown.config", SET, "x")])) == [(0, None)]


def test_log_levels_are_changed_here(broker: Any) -> None:
    logger = logging.getLogger("barnabas.broker.some.part")
    name = logger.name
    try:
        assert change(broker, (8, "1", [(name, SET, "ERROR")]), validate_only=True) == [(0, None)]
        assert logger.level == logging.NOTSET
        assert change(broker, (8, "1", [(name, SET, "FATAL")])) == [(0, None)]
        assert logger.level == logging.CRITICAL
        assert describe(broker, LOGGER_TYPE, "1", [name]).configs[0].value == "FATAL"
        assert change(broker, (8, "1", [(name, DELETE, None)])) == [(0, None)]
        assert logger.level == logging.NOTSET
        assert change(broker, (8, "1", [("root", DELETE, None)]))[0][0] == ErrorCode.INVALID_REQUEST
    finally:
        logger.setLevel(logging.NOTSET)
    assert not broker.metadata.asked


def test_unauthorized_changes_are_refused(broker: Any) -> None:
    broker.authorizer = Denying(
        (Operation.ALTER_CONFIGS, Resource.TOPIC, "alpha"), (Operation.ALTER_CONFIGS, Resource.GROUP, "g")
    )
    outcomes = change(
        broker,
        (2, "alpha", [("retention.ms", SET, "1")]),
        (32, "g", [("consumer.session.timeout.ms", SET, "1")]),
    )
    assert [code for code, _ in outcomes] == [29, 30]


def replace(broker: Any, kind: int, name: str, options: list[tuple[str, str | None]]) -> Any:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.Resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in options
                ],
            )
        ],
        validate_only=False,
    )
    answer = settled(alter_configs.handle(broker, request, call_of(33, 2)))
    return [(one.error_code, one.error_message) for one in answer.responses]


@pytest.mark.parametrize(
    ("kind", "options", "code", "message"),
    [
        (2, [("retention.ms", None)], 42, "Null value not supported for : retention.ms"),
        (2, [("a", "1"), ("a", "2")], 42, "Error due to duplicate config keys"),
        (8, [("a", "b")], 42, "Unknown resource type 8"),
        (99, [("a", "b")], 42, "Unknown resource type 99"),
        (4, [("node.id", "2")], 42, "Cannot update these configs dynamically: Set(node.id)"),
    ],
)
def test_replacements_that_the_broker_refuses(
    broker: Any, kind: int, options: Any, code: int, message: str
) -> None:
    assert replace(broker, kind, "1", options) == [(code, message)]


def test_a_replacement_is_forwarded_to_the_controller(broker: Any) -> None:
    from barnabas.protocol.messages.alter_configs import AlterConfigsResponse
    from barnabas.runtime.loop.promise import Promise

    answer = AlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResponse.ResourceResponse(
                error_code=0, error_message=None, resource_type=2, resource_name="alpha"
            )
        ],
    )
    broker.metadata.answers[AlterConfigsRequest] = Promise.of(answer)
    assert replace(broker, 2, "alpha", [("retention.ms", "1")]) == [(0, None)]


# ListConfigResources
# --------------------------------------------------------------------------------------------


def listed(broker: Any, version: int, *kinds: int) -> Any:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = list_config_resources.handle(broker, request, call_of(74, version))
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_resources_with_options_are_listed(broker: Any) -> None:
    assert listed(broker, 0) == []
    assert listed(broker, 1) == [(8, "1"), (4, "1"), (2, "alpha")]
    config(broker, METRICS_TYPE, "sub", "interval.ms", "1000")
    config(broker, GROUP_TYPE, "g", "consumer.session.timeout.ms", "50000")
    assert listed(broker, 0) == [(16, "sub")]
    assert listed(broker, 1, 2) == [(2, "alpha")]
    assert listed(broker, 1, 16, 32) == [(16, "sub"), (32, "g")]
    with pytest.raises(KafkaError) as refused:
        listed(broker, 1, 99)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
