"""Requests to a broker with an authorizer: rules made, found and removed, and every API under them.

Everybody is ANONYMOUS and may do what no rule is about; so rules for somebody else close a resource to us.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.acls import Operation, PatternType, Permission, ResourceType
from tests.verify.answers.asks.admin import election, folder, moves, quota, upsertion
from tests.verify.answers.broker_ask import Ask, Raw, TopicId, ask, batch

TOPIC, GROUP, CLUSTER, TXN = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
ME, ALICE, EVERYBODY = "User:ANONYMOUS", "User:alice", "User:*"


def rule(
    kind: int,
    name: str,
    operation: int,
    who: str = ME,
    *,
    deny: bool = False,
    pattern: int = LITERAL,
    host: str = "*",
    **more: Any,
) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": who,
        "host": host,
        "operation": operation,
        "permission_type": Permission.DENY if deny else Permission.ALLOW,
        **more,
    }


def like(
    kind: int = ResourceType.ANY, name: str | None = None, pattern: int = ANY, **more: Any
) -> dict[str, Any]:
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
        **more,
    }


# Topics that exist, and what rules say of each; `ghost` does not exist.
GROUPS = ("g-closed", "g-seen", "g-open")
TXNS = ("x-closed", "x-seen", "x-open")
NAMES = (
    "open",
    "closed",
    "readable",
    "writable",
    "looked-at",
    "denied",
    "elsewhere",
    "team-a",
    "team-secret",
    "ghost",
)
FIXTURES = [
    rule(TOPIC, "closed", ALL, ALICE),
    rule(TOPIC, "readable", READ),
    rule(TOPIC, "writable", WRITE, EVERYBODY),
    rule(TOPIC, "looked-at", DESCRIBE, host="127.0.0.1"),
    rule(TOPIC, "denied", ALL),
    rule(TOPIC, "denied", WRITE, deny=True),
    rule(TOPIC, "denied", DELETE, EVERYBODY, deny=True),
    rule(TOPIC, "elsewhere", ALL, host="10.9.9.9"),
    rule(TOPIC, "team-", ALL, pattern=PREFIXED),
    rule(TOPIC, "team-secret", ALL, deny=True),
    rule(TOPIC, "ghost", READ, ALICE),
    rule(GROUP, "g-closed", READ, ALICE),
    rule(GROUP, "g-seen", DESCRIBE),
    rule(TXN, "x-closed", WRITE, ALICE),
    rule(TXN, "x-seen", DESCRIBE),
]


def partitions(**more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": 0, **more}]} for name in NAMES]


def named() -> list[dict[str, Any]]:
    return [{"name": name} for name in NAMES]


def resources(
    kind: int, names: tuple[str, ...], option: str, value: str, **more: Any
) -> list[dict[str, Any]]:
    return [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": option, "value": value, **more}]}
        for name in names
    ]


def fetched(*names: str) -> list[dict[str, Any]]:
    places = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]
    return [{"topic": name, "partitions": places} for name in names]


def written(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "partition_data": [{"index": 0, "records": batch("a")}]} for name in names]


# fmt: off
RULES_MADE: list[Ask | Raw] = [
    ask("topics to guard", "CreateTopics", "7", topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in NAMES if name != "ghost"], timeout_ms=9000),
    ask("no rules yet", "DescribeAcls", "1 2 3", **like()),
    ask("rules", "CreateAcls", "1", creations=[rule(TOPIC, "t", READ, ALICE), rule(TOPIC, "t", READ, ALICE), rule(TOPIC, "t", WRITE, ALICE, deny=True)]),
    ask("rules again", "CreateAcls", "3", creations=[rule(TOPIC, "t", READ, ALICE)]),
    ask("rules of every kind", "CreateAcls", "2", creations=[
        rule(GROUP, "*", READ, ALICE), rule(TXN, "tx-", WRITE, ALICE, pattern=PREFIXED), rule(CLUSTER, "kafka-cluster", ALTER, EVERYBODY), rule(CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION, EVERYBODY),
        rule(ResourceType.DELEGATION_TOKEN, "d", DESCRIBE, ALICE), rule(ResourceType.USER, "User:x", Operation.CREATE_TOKENS, ALICE), rule(TOPIC, "t", ALL, "Group:staff", host="10.0.0.1"),
    ]),
    *[
        ask(f"a bad rule: {title}", "CreateAcls", "2 3", creations=[bad, rule(TOPIC, "t", READ, ALICE)])
        for title, bad in {
            "any kind": rule(ResourceType.ANY, "t", READ),
            "an empty name": rule(TOPIC, "", READ),
            "another cluster": rule(CLUSTER, "my-cluster", READ),
            "a pattern for filters": rule(TOPIC, "t", READ, pattern=MATCH),
            "any pattern": rule(TOPIC, "t", READ, pattern=ANY),
            "any operation": rule(TOPIC, "t", Operation.ANY),
            "any permission": rule(TOPIC, "t", READ, permission_type=Permission.ANY),
            "a principal without a kind": rule(TOPIC, "t", READ, "alice"),
            "a principal without a name": rule(TOPIC, "t", READ, "User:"),
            "no principal": rule(TOPIC, "t", READ, ""),
            "a strange kind": rule(77, "t", READ),
            "a strange pattern": rule(TOPIC, "t", READ, pattern=77),
            "a strange operation": rule(TOPIC, "t", 77),
            "a strange permission": rule(TOPIC, "t", READ, permission_type=77),
            "an unknown kind": rule(ResourceType.UNKNOWN, "t", READ),
            "no host": rule(TOPIC, "t", READ, host=""),
            "an operation of another kind": rule(TOPIC, "t", Operation.CLUSTER_ACTION),
            "a bad topic name": rule(TOPIC, "a/b", READ),
        }.items()
    ],
    ask("all rules", "DescribeAcls", "1 2 3", **like()),
    ask("rules of topics", "DescribeAcls", "3", **like(TOPIC)),
    ask("rules of a name", "DescribeAcls", "3", **like(TOPIC, "t", LITERAL)),
    ask("rules that match a name", "DescribeAcls", "3", **like(TXN, "tx-1", MATCH)),
    ask("rules that match a group", "DescribeAcls", "3", **like(GROUP, "any-group", MATCH)),
    ask("rules of a prefix", "DescribeAcls", "3", **like(TXN, "tx-", PREFIXED)),
    ask("rules of somebody", "DescribeAcls", "3", **like(principal_filter=ALICE, host_filter="*")),
    ask("rules that deny", "DescribeAcls", "3", **like(permission_type=Permission.DENY)),
    ask("rules to read", "DescribeAcls", "3", **like(operation=READ)),
    ask("rules of an unknown kind", "DescribeAcls", "2 3", **like(ResourceType.UNKNOWN)),
    ask("rules of a strange kind", "DescribeAcls", "3", **like(99)),
    ask("rules of an unknown pattern", "DescribeAcls", "3", **like(TOPIC, "t", PatternType.UNKNOWN)),
    ask("rules of an unknown operation", "DescribeAcls", "3", **like(operation=0)),
    ask("rules of an unknown permission", "DescribeAcls", "3", **like(permission_type=0)),
    ask("delete by unknown filters", "DeleteAcls", "2 3", filters=[like(ResourceType.UNKNOWN), like(permission_type=0)]),
    ask("delete nothing", "DeleteAcls", "1 3", filters=[like(TOPIC, "no-such", LITERAL)]),
    ask("delete without filters", "DeleteAcls", "3", filters=[]),
    ask("delete rules twice", "DeleteAcls", "3", filters=[like(TOPIC, "t", LITERAL, operation=READ), like(TOPIC, "t", LITERAL)]),
    ask("delete what is left", "DeleteAcls", "2", filters=[like()]),
    ask("no rules any more", "DescribeAcls", "3", **like()),
]
UNDER_RULES: list[Ask | Raw] = [
    # The groups' and transactions' topics, while nothing is in the way.
    ask("write to all topics before the rules", "Produce", "9", acks=-1, timeout_ms=9000, topic_data=written(*NAMES[:-1])),
    ask("the rules to come", "CreateAcls", "3", creations=FIXTURES),
    ask("topics by name", "Metadata", "1 4 8 12 13", topics=named()),
    ask("topics by name with operations", "Metadata", "8 12", topics=named(), include_topic_authorized_operations=True),
    ask("topics by id", "Metadata", "12", topics=[{"topic_id": TopicId(name), "name": None} for name in NAMES if name != "ghost"]),
    ask("all topics", "Metadata", "1 13", topics=None),
    ask("topics to make meanwhile", "Metadata", "12", topics=[{"name": "ghost"}], allow_auto_topic_creation=True),
    ask("partitions of topics", "DescribeTopicPartitions", "0", topics=[one for one in named() if one["name"] not in ("elsewhere", "ghost", "team-secret")]),
    ask("partitions of all topics", "DescribeTopicPartitions", "0", topics=[]),
    ask("write", "Produce", "9", acks=-1, timeout_ms=9000, topic_data=written(*NAMES)),
    *[ask(f"write to {name}", "Produce", "9", acks=1, timeout_ms=9000, topic_data=written(name)) for name in NAMES],
    ask("write to what is closed without an answer", "Produce", "9", acks=0, timeout_ms=9000, topic_data=written("closed")),
    ask("read", "Fetch", "12", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=fetched(*NAMES)),
    *[ask(f"read from {name}", "Fetch", "11", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=fetched(name)) for name in NAMES],
    ask("read by id", "Fetch", "13", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[{"topic_id": TopicId(name), "partitions": [{"partition": 0, "partition_max_bytes": 10_000}]} for name in ("open", "closed", "readable", "writable")]),
    ask("offsets", "ListOffsets", "1 7", topics=partitions(timestamp=-1)),
    ask("epochs", "OffsetForLeaderEpoch", "4", topics=[{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in NAMES]),
    ask("delete records", "DeleteRecords", "2", topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in NAMES], timeout_ms=9000),
    ask("producers", "DescribeProducers", "0", topics=[{"name": name, "partition_indexes": [0]} for name in NAMES]),
    ask("options of topics", "DescribeConfigs", "4", resources=[{"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]} for name in NAMES]),
    ask("new options of topics", "IncrementalAlterConfigs", "1", resources=resources(2, NAMES, "retention.ms", "100000", config_operation=0)),
    ask("all options of topics", "AlterConfigs", "2", resources=resources(2, NAMES, "retention.ms", "200000")),
    ask("options of groups", "DescribeConfigs", "4", resources=[{"resource_type": 32, "resource_name": name, "configuration_keys": []} for name in ("g-closed", "g-seen")]),
    ask("new options of groups", "IncrementalAlterConfigs", "1", resources=resources(32, ("g-closed", "g-open"), "consumer.session.timeout.ms", "50000", config_operation=0)),
    ask("make what is guarded", "CreateTopics", "7", topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (*NAMES, "team-b", "new")], timeout_ms=9000, validate_only=True),
    ask("more partitions", "CreatePartitions", "3", topics=[{"name": name, "count": 2, "assignments": None} for name in NAMES], timeout_ms=9000, validate_only=True, settles=False),
    ask("delete topics by name", "DeleteTopics", "4", topic_names=["closed", "looked-at", "denied", "ghost", "no-such", "team-secret"], timeout_ms=9000),
    ask("delete topics by id", "DeleteTopics", "6", topics=[{"name": None, "topic_id": TopicId(name)} for name in ("closed", "looked-at", "denied")], timeout_ms=9000),
    ask("a producer's id among rules", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=1000),
    ask("a transactional producer's id", "InitProducerId", "4", transactional_id="x-closed", transaction_timeout_ms=1000),
    ask("another transactional producer's id", "InitProducerId", "4", transactional_id="x-seen", transaction_timeout_ms=1000),
]
GROUPS_UNDER_RULES: list[Ask | Raw] = [
    ask("find coordinators of groups", "FindCoordinator", "4 6", key_type=0, coordinator_keys=list(GROUPS)),
    ask("find coordinators of transactions", "FindCoordinator", "4", key_type=1, coordinator_keys=list(TXNS)),
    *[ask(f"find the coordinator of {name}", "FindCoordinator", "0 3", key=name) for name in GROUPS],
    *[ask(f"find the coordinator of {name}", "FindCoordinator", "1", key_type=1, key=name) for name in TXNS],
    ask("a coordinator of shares", "FindCoordinator", "6", key_type=2, coordinator_keys=["a:b:0"]),
    *[ask(f"join {name}", "JoinGroup", "4 9", group_id=name, session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer", protocols=[]) for name in GROUPS[:2]],
    *[ask(f"sync {name}", "SyncGroup", "3 5", group_id=name, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range", assignments=[]) for name in GROUPS],
    ask("sync without a protocol", "SyncGroup", "5", group_id="g-closed", generation_id=1, member_id="m", protocol_type=None, protocol_name=None, assignments=[]),
    *[ask(f"beat in {name}", "Heartbeat", "4", group_id=name, generation_id=1, member_id="m") for name in GROUPS],
    *[ask(f"leave {name}", "LeaveGroup", "2", group_id=name, member_id="m") for name in GROUPS],
    *[ask(f"leave {name} as a member", "LeaveGroup", "3 5", group_id=name, members=[{"member_id": "m", "group_instance_id": None}]) for name in GROUPS],
    ask("describe groups", "DescribeGroups", "0 5 6", groups=list(GROUPS)),
    ask("describe groups with operations", "DescribeGroups", "5", groups=list(GROUPS), include_authorized_operations=True),
    ask("list groups", "ListGroups", "0 5"),
    ask("delete groups", "DeleteGroups", "2", groups_names=list(GROUPS)),
    *[ask(f"beat in the new way in {name}", "ConsumerGroupHeartbeat", "0 1", group_id=name, member_id="AAAAAAAAAAAAAAAAAAAAAQ", member_epoch=5, rebalance_timeout_ms=-1) for name in GROUPS],
    ask("subscribe to what is closed", "ConsumerGroupHeartbeat", "1", group_id="g-open", member_id="AAAAAAAAAAAAAAAAAAAAAQ", member_epoch=0, rebalance_timeout_ms=6000, subscribed_topic_names=["open", "closed"], topic_partitions=[]),
    ask("describe groups of the new kind", "ConsumerGroupDescribe", "0 1", group_ids=list(GROUPS), include_authorized_operations=True),
    *[ask(f"commit to {name}", "OffsetCommit", "2 8 9", group_id=name, topics=partitions(committed_offset=0)) for name in GROUPS],
    *[ask(f"offsets of {name}", "OffsetFetch", "1 7", group_id=name, topics=[{"name": topic, "partition_indexes": [0]} for topic in NAMES]) for name in GROUPS],
    *[ask(f"all offsets of {name}", "OffsetFetch", "5", group_id=name, topics=None) for name in GROUPS],
    ask("offsets of many groups", "OffsetFetch", "8 9", groups=[{"group_id": name, "topics": None} for name in GROUPS]),
    *[ask(f"delete offsets of {name}", "OffsetDelete", "0", group_id=name, topics=[{"name": topic, "partitions": [{"partition_index": 0}]} for topic in ("open", "closed", "readable", "ghost")]) for name in GROUPS],
    ask("list groups that are there", "ListGroups", "4"),
]
IDS: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 0}
TRANSACTIONS_UNDER_RULES: list[Ask | Raw] = [
    *[ask(f"add partitions to {name}", "AddPartitionsToTxn", "0 3", v3_and_below_transactional_id=name, v3_and_below_producer_id=4000, v3_and_below_producer_epoch=0,
          v3_and_below_topics=[{"name": topic, "partitions": [0]} for topic in ("open", "writable", "closed", "readable", "__consumer_offsets", "no-such")]) for name in TXNS],
    *[ask(f"add offsets of g-open to {name}", "AddOffsetsToTxn", "0 4", transactional_id=name, group_id="g-open", **IDS) for name in TXNS],
    *[ask(f"add offsets of {name}", "AddOffsetsToTxn", "3", transactional_id="x-open", group_id=name, **IDS) for name in GROUPS],
    *[ask(f"commit offsets of g-open in {name}", "TxnOffsetCommit", "0 3 5", transactional_id=name, group_id="g-open", topics=partitions(committed_offset=0), **IDS) for name in TXNS],
    *[ask(f"commit offsets of the group {name} in x-open", "TxnOffsetCommit", "3", transactional_id="x-open", group_id=name, topics=partitions(committed_offset=0), **IDS) for name in GROUPS],
    *[ask(f"end {name}", "EndTxn", "0 3 5", transactional_id=name, committed=True, **IDS) for name in TXNS],
    ask("describe transactions", "DescribeTransactions", "0", transactional_ids=list(TXNS)),
    ask("list transactions", "ListTransactions", "0 2"),
    *[ask(f"write in {name}", "Produce", "9", acks=-1, timeout_ms=9000, transactional_id=name, topic_data=[{"name": "open", "partition_data": [{"index": 0, "records": batch("a", producer_id=4000, producer_epoch=0, base_sequence=0, transactional=True)}]}]) for name in TXNS[:2]],
]
# Rules of every topic, of prefixes of each other, of one host and of another, which allow and deny.
WIDE_RULES: list[Ask | Raw] = [
    ask("wide rules", "CreateAcls", "3", creations=[
        rule(TOPIC, "*", DESCRIBE, ALICE), rule(TOPIC, "*", READ, deny=True, host="10.9.9.9"), rule(TOPIC, "*", WRITE, host="127.0.0.1"), rule(TOPIC, "open", READ, EVERYBODY, host="10.9.9.9"),
        rule(TOPIC, "team", READ, deny=True, pattern=PREFIXED, host="127.0.0.1"), rule(TOPIC, "team-s", WRITE, deny=True, pattern=PREFIXED), rule(TOPIC, "looked-at", Operation.ALTER_CONFIGS), rule(TOPIC, "elsewhere", DELETE, deny=True),
    ]),
    ask("topics under wide rules", "Metadata", "9 12", topics=named(), allow_auto_topic_creation=False, include_topic_authorized_operations=True),
    *[ask(f"write to {name} under wide rules", "Produce", "9", acks=-1, timeout_ms=9000, topic_data=written(name)) for name in NAMES],
    *[ask(f"read from {name} under wide rules", "Fetch", "12", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=fetched(name)) for name in NAMES],
    ask("options under wide rules", "DescribeConfigs", "4", resources=[{"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]} for name in NAMES]),
    ask("new options under wide rules", "IncrementalAlterConfigs", "1", resources=resources(2, NAMES, "retention.ms", "300000", config_operation=0)),
    ask("delete records under wide rules", "DeleteRecords", "2", topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in NAMES], timeout_ms=9000),
    ask("no more wide rules", "DeleteAcls", "3", filters=[like(TOPIC, "*", LITERAL), like(TOPIC, "team", PREFIXED), like(TOPIC, "team-s", PREFIXED)]),
]
CLUSTER_RULES: list[Ask | Raw] = [
    ask("operations on the cluster, unguarded", "DescribeCluster", "1", include_cluster_authorized_operations=True),
    ask("rules of the cluster", "CreateAcls", "3", creations=[
        rule(CLUSTER, "kafka-cluster", ALL), *(rule(CLUSTER, "kafka-cluster", one, deny=True) for one in (DESCRIBE, CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE)),
    ]),
    ask("operations on the cluster", "DescribeCluster", "0 1 2", include_cluster_authorized_operations=True),
    ask("operations on the cluster, by metadata", "Metadata", "8", topics=[], include_cluster_authorized_operations=True),
    ask("the cluster, no operations", "DescribeCluster", "1"),
    ask("rules are not shown", "DescribeAcls", "1 3", **like()),
    ask("log folders", "DescribeLogDirs", "1 3 4", topics=None),
    ask("moves are not shown", "ListPartitionReassignments", "0", topics=[{"name": "open", "partition_indexes": [0, 1]}]),
    ask("credentials are not shown", "DescribeUserScramCredentials", "0", users=[{"name": "a"}, {"name": "b"}]),
    ask("all credentials are not shown", "DescribeUserScramCredentials", "0", users=[]),
    ask("quotas are not shown", "DescribeClientQuotas", "1", components=[]),
    ask("quotas are not changed", "AlterClientQuotas", "1", entries=[quota({"user": "u"}, consumer_byte_rate=1e9)]),
    ask("the quorum is not shown", "DescribeQuorum", "2", topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]),
    ask("resources with options are not shown", "ListConfigResources", "0 1", resource_types=[]),
    ask("options of brokers are not shown", "DescribeConfigs", "4", resources=[{"resource_type": 4, "resource_name": "1", "configuration_keys": ["num.partitions"]}, {"resource_type": 8, "resource_name": "1", "configuration_keys": []}, {"resource_type": 16, "resource_name": "m", "configuration_keys": []}]),
    ask("options of brokers are not changed", "IncrementalAlterConfigs", "1", resources=[*resources(4, ("1", ""), "log.retention.ms", "100000", config_operation=0), *resources(16, ("m",), "interval.ms", "1000", config_operation=0), *resources(8, ("1",), "kafka", "INFO", config_operation=0)]),
    ask("all options of brokers are not changed", "AlterConfigs", "2", resources=resources(4, ("1",), "log.retention.ms", "100000")),
    ask("topics where none may be made", "CreateTopics", "7", topics=[{"name": "team-c", "num_partitions": 1, "replication_factor": 1}, {"name": "closed-2", "num_partitions": 1, "replication_factor": 1}], validate_only=True),
    ask("topics of themselves where none may be made", "Metadata", "12", topics=[{"name": "unmade"}], allow_auto_topic_creation=True),
    ask("an id for who may write somewhere", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=1000),
    ask("no more changes of the cluster", "CreateAcls", "3", creations=[rule(CLUSTER, "kafka-cluster", ALTER, deny=True)]),
    ask("no folders are changed", "AlterReplicaLogDirs", "1 2", dirs=[folder("/a", ("open", [0])), folder("/b", ("open", [1]))]),
    ask("groups are listed one by one", "ListGroups", "4"),
    ask("no markers but with cluster rights", "WriteTxnMarkers", "1", markers=[{"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "topics": [{"name": "no-such", "partition_indexes": [0]}], "coordinator_epoch": 0}]),
    ask("no more rules", "CreateAcls", "1 3", creations=[rule(TOPIC, "t", READ), rule(TOPIC, "u", READ)]),
    ask("no rules are deleted", "DeleteAcls", "1 3", filters=[like(), like(TOPIC)]),
    ask("no elections", "ElectLeaders", "0 2", topic_partitions=election(("open", [0]))),
    ask("no elections at all", "ElectLeaders", "2", topic_partitions=None),
    ask("no moves", "AlterPartitionReassignments", "0 1", topics=moves(("open", {0: [1]}))),
    ask("no new credentials", "AlterUserScramCredentials", "0", upsertions=[upsertion("z"), upsertion("a")], deletions=[{"name": "m", "mechanism": 1}]),
    ask("no new features", "UpdateFeatures", "1 2", feature_updates=[{"feature": "metadata.version", "max_version_level": 27, "upgrade_type": 1}]),
    ask("no broker forgotten", "UnregisterBroker", "0", broker_id=7),
    ask("operations on the cluster at last", "DescribeCluster", "1", include_cluster_authorized_operations=True),
]
# fmt: on
ASKS = [
    *RULES_MADE,
    *UNDER_RULES,
    *GROUPS_UNDER_RULES,
    *TRANSACTIONS_UNDER_RULES,
    *WIDE_RULES,
    *CLUSTER_RULES,
]
