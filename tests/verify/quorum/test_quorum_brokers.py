"""Brokers of one kind with controllers of the other: registration, forwarded changes, fencing, orderly shutdown.

Each change is sent to one broker and read back from the other, of the other kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import batches
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.records.metadata import BrokerRegistrationChangeRecord
from tests.verify.answers.broker_ask import Plain
from tests.verify.quorum.mixed_cluster import APACHE, OURS, VERSIONS, MixedCluster, mixed_cluster, wait_for

CONTROLLERS = {
    "our-controllers": {101: OURS, 102: OURS, 103: OURS},
    "its-controller": {101: APACHE},
}
BROKERS = {1: APACHE, 2: OURS}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, BROKER = 2, 4
SET = 0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((version, kind), id=f"{version}-{kind}") for version in VERSIONS for kind in CONTROLLERS
    ],
)
def cluster(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    version, kind = request.param
    home = tmp_path_factory.mktemp("quorum_brokers") / "cluster"
    nodes = {**CONTROLLERS[kind], **BROKERS}
    with mixed_cluster(oracle, version, home, nodes, is_dynamic=True, settings=SETTINGS) as cluster:
        for number in BROKERS:
            _await_live(cluster, number, {1, 2})
        yield cluster


def _live(cluster: MixedCluster, number: int) -> set[int]:
    """The brokers that are not fenced, as this one knows them."""
    answer = cluster.ask(cluster.members[number], "Metadata", 9, topics=[])
    return set() if answer is None else {broker["node_id"] for broker in answer["brokers"]}


def _await_live(cluster: MixedCluster, number: int, expected: set[int]) -> None:
    wait_for(f"broker {number} knows {expected}", lambda: _live(cluster, number) == expected)


def _send(cluster: MixedCluster, number: int, api: str, version: int, **fields: Any) -> Plain:
    answer = cluster.ask(cluster.members[number], api, version, **fields)
    assert answer is not None, f"broker {number} did not answer {api}"
    return answer


def _await(
    cluster: MixedCluster, number: int, look: Callable[[Plain], Any], api: str, version: int, **fields: Any
) -> None:
    """Waits until another broker's answer shows the change."""

    def shows() -> bool:
        return bool(look(_send(cluster, number, api, version, **fields)))

    wait_for(f"broker {number} shows it: {api}", shows)


def _create(cluster: MixedCluster, number: int, name: str, **fields: Any) -> Plain:
    topics = [{"name": name, "num_partitions": 2, "replication_factor": 1, **fields}]
    return _send(cluster, number, "CreateTopics", 7, topics=topics, timeout_ms=20_000)["topics"][0]


def _partitions(name: str, answer: Plain) -> int:
    return max((len(topic["partitions"]) for topic in answer["topics"] if topic["name"] == name), default=0)


def _has_config(option: str, value: str, answer: Plain) -> bool:
    configs = answer["results"][0]["configs"]
    return any((each["name"], each["value"]) == (option, value) for each in configs)


EACH_BROKER = pytest.mark.parametrize(("number", "other"), [(1, 2), (2, 1)], ids=["by-theirs", "by-ours"])


@EACH_BROKER
def test_topics_are_created_widened_and_deleted(cluster: MixedCluster, number: int, other: int) -> None:
    name = f"topic-{number}"
    created = _create(cluster, number, name, configs=[{"name": "retention.ms", "value": "77"}])
    assert (created["error_code"], created["num_partitions"]) == (0, 2)
    assert _create(cluster, other, name)["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
    described = partial(_await, cluster, other)
    described(lambda answer: _partitions(name, answer) == 2, "Metadata", 9, topics=[{"name": name}])
    topics = [{"name": name, "count": 3, "assignments": None}]
    widened = _send(cluster, number, "CreatePartitions", 3, topics=topics, timeout_ms=20_000)
    assert widened["results"][0]["error_code"] == 0
    described(lambda answer: _partitions(name, answer) == 3, "Metadata", 9, topics=[{"name": name}])
    deleted = _send(cluster, number, "DeleteTopics", 6, topics=[{"name": name}], timeout_ms=20_000)
    assert deleted["responses"][0]["error_code"] == 0
    described(lambda answer: _partitions(name, answer) == 0, "Metadata", 9, topics=[{"name": name}])


@EACH_BROKER
def test_a_refused_topic_is_refused_in_the_same_words(cluster: MixedCluster, number: int, other: int) -> None:
    for fields in (
        {"replication_factor": 5},
        {"num_partitions": 0},
        {"configs": [{"name": "retention.ms", "value": "soon"}]},
        {"configs": [{"name": "unheard.of", "value": "1"}]},
    ):
        theirs, ours = (_create(cluster, each, "refused", **fields) for each in (1, 2))
        assert theirs["error_code"] != 0
        assert theirs == ours


@EACH_BROKER
def test_options_of_topics_and_brokers(cluster: MixedCluster, number: int, other: int) -> None:
    name = f"options-{number}"
    assert _create(cluster, number, name)["error_code"] == 0
    # Of a topic, of all brokers, of the broker itself: only it may check its own.
    for resource_type, resource, option, value in (
        (TOPIC, name, "segment.ms", "654321"),
        (BROKER, "", "log.cleaner.threads", "2"),
        (BROKER, str(number), "background.threads", "9"),
    ):
        change = {"name": option, "config_operation": SET, "value": value}
        resources = [{"resource_type": resource_type, "resource_name": resource, "configs": [change]}]
        altered = _send(cluster, number, "IncrementalAlterConfigs", 1, resources=resources)
        assert altered["responses"][0]["error_code"] == 0, altered
        asked = [{"resource_type": resource_type, "resource_name": resource, "configuration_keys": [option]}]
        reader = number if resource == str(number) else other
        _await(
            cluster,
            reader,
            partial(_has_config, option, value),
            "DescribeConfigs",
            4,
            resources=asked,
        )


@EACH_BROKER
def test_rules_quotas_and_credentials(cluster: MixedCluster, number: int, other: int) -> None:
    user = f"user-{number}"
    rule = {
        "resource_type": 2,
        "resource_name": f"secret-{number}",
        "resource_pattern_type": 3,
        "principal": f"User:{user}",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    created = _send(cluster, number, "CreateAcls", 3, creations=[rule])
    assert created["results"][0]["error_code"] == 0, created
    rules = {
        "resource_type_filter": 2,
        "resource_name_filter": f"secret-{number}",
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    _await(cluster, other, lambda answer: len(answer["resources"]) == 1, "DescribeAcls", 3, **rules)
    entity = [{"entity_type": "user", "entity_name": user}]
    ops = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
    altered = _send(cluster, number, "AlterClientQuotas", 1, entries=[{"entity": entity, "ops": ops}])
    assert altered["entries"][0]["error_code"] == 0, altered
    components = [{"entity_type": "user", "match_type": 0, "match": user}]
    _await(cluster, other, lambda answer: answer["entries"], "DescribeClientQuotas", 1, components=components)
    upsertion = {
        "name": user,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"p" * 32,
    }
    changed = _send(cluster, number, "AlterUserScramCredentials", 0, deletions=[], upsertions=[upsertion])
    assert changed["results"][0]["error_code"] == 0, changed
    _await(
        cluster,
        other,
        lambda answer: answer["results"][0]["error_code"] == 0,
        "DescribeUserScramCredentials",
        0,
        users=[{"name": user}],
    )


@EACH_BROKER
def test_producer_ids_come_from_the_controller(cluster: MixedCluster, number: int, other: int) -> None:
    def new_id(broker: int) -> int | None:
        answer = _send(
            cluster, broker, "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000
        )
        return None if answer["error_code"] else int(answer["producer_id"]) + 1

    ids = {wait_for("a producer id", partial(new_id, broker)) // 1000 for broker in (number, other)}
    assert len(ids) == 2, "two brokers have the same block of ids"


@EACH_BROKER
def test_a_killed_broker_is_fenced_and_comes_back(cluster: MixedCluster, number: int, other: int) -> None:
    cluster.kill(number)
    _await_live(cluster, other, {other})
    cluster.start(number)
    for broker in (number, other):
        _await_live(cluster, broker, {1, 2})


@EACH_BROKER
def test_a_broker_that_stops_in_order_leaves_first(cluster: MixedCluster, number: int, other: int) -> None:
    before = _shutdowns(cluster, number)
    cluster.stop(number)
    _await_live(cluster, other, {other})
    assert _shutdowns(cluster, number) == before + 1
    cluster.start(number)
    for broker in (number, other):
        _await_live(cluster, broker, {1, 2})


def _shutdowns(cluster: MixedCluster, number: int) -> int:
    """How often the log says that this broker is in controlled shutdown."""
    leader = cluster.members[cluster.leader().leader_id]
    count = 0
    for segment in sorted(leader.metadata.glob("*.log")):
        for batch in batches(segment.read_bytes()):
            for record in batch.records() if not batch.is_control else ():
                message, _ = read_metadata_record(record.value or b"")
                if isinstance(message, BrokerRegistrationChangeRecord) and message.broker_id == number:
                    count += message.in_controlled_shutdown == 1
    return count


def test_apache_kafkas_tools_see_the_cluster(cluster: MixedCluster) -> None:
    for member in (cluster.members[1], cluster.members[2]):
        shown = cluster.tool_of(APACHE, "features", *member.option, "describe")
        assert "Feature: metadata.version" in shown
        assert "FinalizedVersionLevel: 4.1-IV1" in shown
    shown = cluster.tool_of(APACHE, "broker-api-versions", *cluster.members[1].option)
    assert shown.count("(id: ") == 2


def test_our_nodes_have_no_errors_in_their_logs(cluster: MixedCluster) -> None:
    assert cluster.faults() == []
