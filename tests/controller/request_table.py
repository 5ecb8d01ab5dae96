"""A table of controller requests, valid and invalid, in the order in which they are sent.

`answers.json` and `records.json` in tests/data/controller contain the responses and records of Apache Kafka
4.1.0, sent through its only broker; `make verify` sends them again.  Requests that the broker itself rejects
before the controller sees them are not in the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.json_form import to_json
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.schema import Message

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
UPGRADE, SAFE, UNSAFE = 1, 2, 3
ONES = Uuid(b"1" * 16)


class Case(NamedTuple):
    """A request, its version, and the type of its response."""

    request: Message
    version: int
    response: type[Message]


def _topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assigned: Sequence[tuple[int, list[int]]] = (),
    **configs: str | None,
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in assigned
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=option.replace("_", "."), value=value)
            for option, value in configs.items()
        ],
    )


def _create(*topics: CreateTopicsRequest.CreatableTopic, validate_only: bool = False) -> Case:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return Case(request, 7, CreateTopicsResponse)


def _grow(
    name: str, count: int, assigned: list[list[int]] | None = None, validate_only: bool = False
) -> Case:
    assignment = CreatePartitionsRequest.Assignment
    topic = CreatePartitionsRequest.Topic(
        name=name,
        count=count,
        assignments=None
        if assigned is None
        else [assignment(broker_ids=broker_ids) for broker_ids in assigned],
    )
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=validate_only)
    return Case(request, 3, CreatePartitionsResponse)


def _alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Case:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=option, config_operation=op, value=value)
            for option, op, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return Case(request, 1, IncrementalAlterConfigsResponse)


def _replace(kind: int, name: str, **options: str) -> Case:
    resource = AlterConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=option.replace("_", "."), value=value)
            for option, value in options.items()
        ],
    )
    return Case(AlterConfigsRequest(resources=[resource], validate_only=False), 2, AlterConfigsResponse)


def _delete(*topics: tuple[str | None, Uuid]) -> Case:
    named = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    return Case(DeleteTopicsRequest(topics=named, timeout_ms=5000), 6, DeleteTopicsResponse)


def _elect(kind: int, *partitions: tuple[str, list[int]]) -> Case:
    named = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=some) for name, some in partitions]
    return Case(ElectLeadersRequest(election_type=kind, topic_partitions=named), 2, ElectLeadersResponse)


def _update(name: str, level: int, kind: int, *, version: int = 2, validate_only: bool = False) -> Case:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)
    return Case(request, version, UpdateFeaturesResponse)


def _reassign(*moves: tuple[str, int, list[int] | None], resize: bool = True) -> Case:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name=name,
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(
                        partition_index=number, replicas=replicas
                    )
                ],
            )
            for name, number, replicas in moves
        ],
        allow_replication_factor_change=resize,
    )
    return Case(request, 1, AlterPartitionReassignmentsResponse)


def _moving(topics: list[tuple[str, list[int]]] | None) -> Case:
    named = ListPartitionReassignmentsRequest.Topics
    request = ListPartitionReassignmentsRequest(
        topics=None if topics is None else [named(name=name, partition_indexes=some) for name, some in topics]
    )
    return Case(request, 0, ListPartitionReassignmentsResponse)


def _quota(entity: list[tuple[str, str | None]], *ops: tuple[str, float | None]) -> Case:
    entry = AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops
        ],
    )
    return Case(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1, AlterClientQuotasResponse)


def _scram(
    deletions: Sequence[tuple[str, int]] = (), upsertions: Sequence[tuple[str, int, int]] = ()
) -> Case:
    request = AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=name, mechanism=mechanism)
            for name, mechanism in deletions
        ],
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=iterations,
                salt=b"s" * 8,
                salted_password=b"p" * 32,
            )
            for name, mechanism, iterations in upsertions
        ],
    )
    return Case(request, 0, AlterUserScramCredentialsResponse)


THROTTLED = "follower.replication.throttled.replicas"
SESSION = "consumer.session.timeout.ms"

CASES: tuple[Case, ...] = (
    # Names
    _create(_topic("alpha", 2)),
    _create(_topic("alpha")),
    _create(_topic("a.b_c")),
    _create(_topic("a_b.c")),
    _create(_topic("")),
    _create(_topic(".")),
    _create(_topic("..")),
    _create(_topic("x" * 249)),
    _create(_topic("x" * 250)),
    _create(_topic("b d")),
    _create(_topic("dup"), _topic("dup"), _topic("ok1")),
    _create(_topic("__cluster_metadata")),
    _create(),
    # Numbers and assignments
    _create(_topic("z", 0)),
    _create(_topic("z", -2)),
    _create(_topic("z", 1, 0)),
    _create(_topic("z", 1, -2)),
    _create(_topic("z", 1, 2)),
    _create(_topic("z", -1, -1), validate_only=True),
    _create(_topic("z", 1, 1, [(0, [1])])),
    _create(_topic("z", -1, 1, [(0, [1])])),
    _create(_topic("z", 1, -1, [(0, [1])])),
    _create(_topic("z", -1, -1, [(0, [])])),
    _create(_topic("z", -1, -1, [(0, [7])])),
    _create(_topic("z", -1, -1, [(0, [1, 1])])),
    _create(_topic("z", -1, -1, [(1, [1])])),
    _create(_topic("z", -1, -1, [(0, [1]), (0, [1])])),
    _create(_topic("z", -1, -1, [(0, [1]), (1, [1])])),
    # Configs of new topics
    _create(_topic("cfg", no_such="1")),
    _create(_topic("cfg", retention_ms="abc")),
    _create(_topic("cfg", retention_ms=None, segment_ms=None)),
    _create(_topic("cfg", cleanup_policy="shred")),
    _create(_topic("cfg", min_insync_replicas="0")),
    _create(_topic("cfg", segment_bytes="1")),
    _create(_topic("cfg", min_compaction_lag_ms="10", max_compaction_lag_ms="5")),
    _create(_topic("cfg", remote_storage_enable="true")),
    _create(_topic("cfg", max_message_bytes="")),
    _create(_topic("cfg", preallocate="maybe")),
    _create(
        _topic(
            "cfg",
            min_insync_replicas="2",
            retention_ms="5",
            cleanup_policy="compact,delete",
            compression_type="lz4",
        )
    ),
    # CreatePartitions
    _grow("alpha", 2),
    _grow("alpha", 1),
    _grow("nope", 3),
    _grow("alpha", 4, [[1]]),
    _grow("alpha", 3, [[1, 1]]),
    _grow("alpha", 3, [[9]]),
    _grow("alpha", 3, [[]]),
    _grow("alpha", 0),
    _grow("alpha", -5),
    _grow("alpha", 5, validate_only=True),
    _grow("alpha", 4),
    # IncrementalAlterConfigs: topics
    _alter(TOPIC, "alpha", ("retention.ms", SET, "1000")),
    _alter(TOPIC, "alpha", ("retention.ms", SET, "1000")),
    _alter(TOPIC, "alpha", ("retention.ms", APPEND, "1")),
    _alter(TOPIC, "alpha", ("cleanup.policy", APPEND, "compact")),
    _alter(TOPIC, "alpha", ("cleanup.policy", APPEND, "compact")),
    _alter(TOPIC, "alpha", ("cleanup.policy", SUBTRACT, "delete")),
    _alter(TOPIC, "alpha", ("cleanup.policy", SUBTRACT, "compact")),
    _alter(TOPIC, "alpha", ("no.such", SET, "1")),
    _alter(TOPIC, "alpha", ("no.such", DELETE, None)),
    _alter(TOPIC, "alpha", ("retention.ms", DELETE, None)),
    _alter(TOPIC, "nope", ("retention.ms", SET, "1")),
    _alter(TOPIC, "", ("retention.ms", SET, "1")),
    _alter(TOPIC, "b d", ("retention.ms", SET, "1")),
    _alter(TOPIC, "alpha", ("retention.ms", 9, "1")),
    _alter(TOPIC, "alpha", (THROTTLED, APPEND, "0:1")),
    _alter(TOPIC, "alpha", (THROTTLED, APPEND, "x")),
    _alter(TOPIC, "alpha", ("min.insync.replicas", SET, "1"), ("segment.ms", SET, "100000")),
    # Brokers
    _alter(BROKER, "1", ("min.insync.replicas", SET, "2")),
    _alter(BROKER, "", ("min.insync.replicas", DELETE, None)),
    _alter(BROKER, "", ("min.insync.replicas", SET, "1")),
    _alter(BROKER, "1", ("log.retention.ms", SET, "500000")),
    _alter(BROKER, "1", ("log.retention.ms", SET, "500000")),
    # Groups and client metrics
    _alter(GROUP, "g1", (SESSION, SET, "50000")),
    _alter(GROUP, "g1", (SESSION, SET, "1")),
    _alter(GROUP, "g1", (SESSION, SET, "x")),
    _alter(GROUP, "g1", ("nope", SET, "1")),
    _alter(GROUP, "", (SESSION, SET, "50000")),
    _alter(GROUP, "g1", ("share.auto.offset.reset", SET, "x")),
    _alter(CLIENT_METRICS, "m", ("interval.ms", SET, "1000")),
    _alter(CLIENT_METRICS, "m", ("interval.ms", SET, "1")),
    _alter(CLIENT_METRICS, "m", ("interval.ms", SET, "x")),
    _alter(CLIENT_METRICS, "m", ("nope", SET, "x")),
    _alter(CLIENT_METRICS, "", ("interval.ms", SET, "1000")),
    _alter(CLIENT_METRICS, "m", ("match", SET, "a=b")),
    _alter(CLIENT_METRICS, "m", ("match", SET, "client_id")),
    _alter(CLIENT_METRICS, "m", ("match", SET, "client_id=abc,client_software_name=x.*")),
    _alter(CLIENT_METRICS, "m", ("metrics", APPEND, "a.b")),
    # AlterConfigs
    _replace(TOPIC, "alpha", retention_ms="77", segment_ms="100000"),
    _replace(TOPIC, "alpha", segment_ms="100000"),
    _replace(TOPIC, "alpha"),
    _replace(TOPIC, "nope", segment_ms="1"),
    _replace(BROKER, "", log_retention_ms="600000"),
    _replace(BROKER, "", log_retention_ms="600000", min_insync_replicas="1"),
    # ElectLeaders
    _elect(0, ("alpha", [0, 99]), ("nope", [0])),
    _elect(1, ("alpha", [0])),
    # UpdateFeatures
    _update("metadata.version", 27, UPGRADE),
    _update("metadata.version", 28, UPGRADE),
    _update("metadata.version", 26, UPGRADE),
    _update("metadata.version", 26, SAFE),
    _update("metadata.version", 27, UPGRADE),
    _update("metadata.version", 20, SAFE),
    _update("metadata.version", 20, UNSAFE),
    _update("metadata.version", 1, UNSAFE),
    _update("metadata.version", 999, UPGRADE),
    _update("nope", 1, UPGRADE),
    _update("group.version", 5, UPGRADE),
    _update("group.version", 0, UPGRADE),
    _update("group.version", 0, SAFE, version=1),
    _update("group.version", 1, UPGRADE, version=1),
    _update("group.version", 0, 9),
    _update("group.version", -1, UPGRADE),
    _update("group.version", 1, SAFE),
    _update("transaction.version", 1, SAFE, validate_only=True),
    _update("transaction.version", 3, SAFE),
    _update("share.version", 1, UPGRADE, validate_only=True),
    _update("streams.version", 1, UPGRADE),
    _update("eligible.leader.replicas.version", 0, SAFE),
    _update("eligible.leader.replicas.version", 1, UPGRADE),
    # Reassignments
    _reassign(("alpha", 0, [1])),
    _reassign(("alpha", 0, None)),
    _reassign(("alpha", 0, [])),
    _reassign(("alpha", 0, [9])),
    _reassign(("alpha", 77, [1])),
    _reassign(("nope", 0, [1])),
    _reassign(("alpha", 0, [1, 1])),
    _reassign(("alpha", 0, [1]), resize=False),
    _reassign(),
    _moving(None),
    _moving([("alpha", [0])]),
    _moving([]),
    _moving([("nope", [0])]),
    # Quotas
    _quota([("user", "al")], ("producer_byte_rate", 1000.0)),
    _quota([("user", "al")], ("producer_byte_rate", 1000.0)),
    _quota([("user", "al")], ("producer_byte_rate", -1.0)),
    _quota([("user", "al")], ("nope", 1.0)),
    _quota([("user", "")], ("producer_byte_rate", 1000.0)),
    _quota([], ("producer_byte_rate", 1000.0)),
    _quota([("x", "y")], ("producer_byte_rate", 1000.0)),
    _quota([("ip", "1.2.3.4")], ("connection_creation_rate", 10.0)),
    _quota([("ip", "1.2.3.4")], ("connection_creation_rate", 1e12)),
    _quota([("ip", "not!")], ("connection_creation_rate", 10.0)),
    _quota([("ip", "1.2.3.4"), ("user", "a")], ("connection_creation_rate", 10.0)),
    _quota([("user", None), ("client-id", "c")], ("consumer_byte_rate", 10.5)),
    _quota([("user", None), ("client-id", "c")], ("request_percentage", 10.5), ("producer_byte_rate", None)),
    _quota([("user", "al")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)),
    _quota([("user", "al")], ("producer_byte_rate", None)),
    # SCRAM credentials
    _scram(upsertions=[("bob", 1, 4096)]),
    _scram(upsertions=[("bob", 1, 1)]),
    _scram(upsertions=[("bob", 1, 99999)]),
    _scram(upsertions=[("", 1, 4096)]),
    _scram(upsertions=[("bob", 9, 4096)]),
    _scram(deletions=[("bob", 1)]),
    _scram(deletions=[("bob", 1)]),
    _scram(deletions=[("x", 1)], upsertions=[("x", 1, 4096)]),
    _scram(upsertions=[("y", 1, 4096), ("y", 2, 4096)]),
    _scram(),
    # DeleteTopics
    _delete(("nope", ZERO_UUID)),
    _delete((None, ZERO_UUID)),
    _delete((None, ONES)),
    _delete(("alpha", ONES)),
    _delete(("alpha", ZERO_UUID), ("alpha", ZERO_UUID)),
    _delete((None, ONES), (None, ONES)),
    _delete(("alpha", ZERO_UUID)),
)

_DRAWN = {"topicId", "incarnationId", "id"}


def without_ids(value: Any) -> Any:
    """The same without random values and values of this machine."""
    if isinstance(value, dict):
        return {key: _plain(key, value) for key, value in value.items()}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


def _plain(key: str, value: Any) -> Any:
    if key in _DRAWN and value not in (str(ZERO_UUID), str(ONES)):
        return "drawn"
    if key in ("directories", "logDirs") and value is not None:
        return ["drawn"] * len(value)
    if key == "port" or key == "brokerEpoch":
        return 0
    return without_ids(value)


def response_form(case: Case, response: Message) -> Any:
    """A response as JSON, after encoding and decoding."""
    decoded = case.response.decode(response.encode(case.version), case.version)
    return without_ids(to_json(decoded, case.version))


def record_form(record: Message, version: int) -> Any:
    """A metadata record as Apache Kafka's dump-log prints it."""
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", record.schema.name).upper()
    return without_ids({"type": name, "version": version, "data": to_json(record, version)})
