"""Requests to a controller, as tables: to a leader without other voters, and to a voter that misses the others."""

from __future__ import annotations

import struct
from typing import Any

from barnabas.base.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from barnabas.broker.peers.envelope import PRINCIPAL_VERSION
from barnabas.protocol.frame import SIZE_BYTES, write_request
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.records.principal import DefaultPrincipalData
from tests.verify.answers.broker_ask import Ask, ask, raw_request
from tests.verify.quorum.mixed_cluster import CLUSTER_ID

TOPIC = "__cluster_metadata"
OTHER_CLUSTER = "A4cJ3nShT-eMCtK--X86sw"
OTHER_DIRECTORY = Uuid(bytes(range(16)))
OTHER_TOPIC = Uuid(bytes(range(1, 17)))
ME, PEER, THIRD, STRANGER = 101, 102, 103, 109
CONTROLLER = {"name": "CONTROLLER", "host": "localhost", "port": 19092}


def client(name: str = "verify", version: str = "1") -> dict[str, Any]:
    return {"client_software_name": name, "client_software_version": version}


def topics(partition: dict[str, Any], *, topic: str = TOPIC, copies: int = 1) -> list[dict[str, Any]]:
    return [{"topic_name": topic, "partitions": [partition] * copies}]


# Each request, complete; the tables change one field at a time.


def vote(title: str, versions: str = "0 1 2", *, topic: str = TOPIC, copies: int = 1, **changed: Any) -> Ask:
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "voter_id": ME}
    partition: dict[str, Any] = {
        "partition_index": 0,
        "replica_epoch": 1,
        "replica_id": PEER,
        "replica_directory_id": OTHER_DIRECTORY,
        "voter_directory_id": ZERO_UUID,
        "last_offset_epoch": 0,
        "last_offset": 0,
        "pre_vote": False,
    }
    fields, partition = _changed(fields, partition, changed)
    if versions != "2":
        partition.pop("pre_vote")
    return ask(title, "Vote", versions, topics=topics(partition, topic=topic, copies=copies), **fields)


def begin(title: str, versions: str = "0 1", *, topic: str = TOPIC, copies: int = 1, **changed: Any) -> Ask:
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "voter_id": ME, "leader_endpoints": [CONTROLLER]}
    partition: dict[str, Any] = {
        "partition_index": 0,
        "voter_directory_id": ZERO_UUID,
        "leader_id": PEER,
        "leader_epoch": 1,
    }
    fields, partition = _changed(fields, partition, changed)
    return ask(
        title, "BeginQuorumEpoch", versions, topics=topics(partition, topic=topic, copies=copies), **fields
    )


def end(title: str, versions: str = "0 1", *, topic: str = TOPIC, copies: int = 1, **changed: Any) -> Ask:
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "leader_endpoints": [CONTROLLER]}
    partition: dict[str, Any] = {
        "partition_index": 0,
        "leader_id": PEER,
        "leader_epoch": 1,
        "preferred_successors": [THIRD],
    }
    fields, partition = _changed(fields, partition, changed)
    return ask(
        title, "EndQuorumEpoch", versions, topics=topics(partition, topic=topic, copies=copies), **fields
    )


def fetch(title: str, versions: str = "12 13 15 16 17 18", **changed: Any) -> Ask:
    """By name and by id, of a replica in each of the two places; each version has what it knows."""
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
    }
    partition: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": 1,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    copies = changed.pop("copies", 1)
    topic = changed.pop("topic", TOPIC)
    topic_id = changed.pop("topic_id", METADATA_TOPIC_ID)
    replica = changed.pop("replica", STRANGER)
    fields, partition = _changed(fields, partition, changed)
    row: dict[str, Any] = {"partitions": [partition] * copies}
    if (low := int(versions.split()[0])) >= 13:
        row["topic_id"] = topic_id
    else:
        row["topic"] = topic
    if low >= 15:
        fields["replica_state"] = {"replica_id": replica, "replica_epoch": -1}
    else:
        fields["replica_id"] = replica
    return ask(title, "Fetch", versions, topics=[row], **fields)


def fetches(title: str, **changed: Any) -> list[Ask]:
    return [fetch(f"{title} ({versions})", versions, **changed) for versions in ("12", "13", "16 17 18")]


def snapshot(
    title: str, versions: str = "0 1", *, topic: str = TOPIC, copies: int = 1, **changed: Any
) -> Ask:
    fields: dict[str, Any] = {"cluster_id": CLUSTER_ID, "replica_id": STRANGER, "max_bytes": 1 << 20}
    partition: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": 1,
        "snapshot_id": {"end_offset": 100, "epoch": 1},
        "position": 0,
    }
    fields, partition = _changed(fields, partition, changed)
    rows = [{"name": topic, "partitions": [partition] * copies}]
    return ask(title, "FetchSnapshot", versions, topics=rows, **fields)


def update(title: str, **changed: Any) -> Ask:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "current_leader_epoch": 1,
        "voter_id": STRANGER,
        "voter_directory_id": OTHER_DIRECTORY,
        "listeners": [CONTROLLER],
        "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    return ask(title, "UpdateRaftVoter", "0", **{**fields, **changed})


def add(title: str, **changed: Any) -> Ask:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 1000,
        "voter_id": STRANGER,
        "voter_directory_id": OTHER_DIRECTORY,
        "listeners": [CONTROLLER],
    }
    return ask(title, "AddRaftVoter", "0", **{**fields, **changed})


def remove(title: str, **changed: Any) -> Ask:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "voter_id": STRANGER,
        "voter_directory_id": OTHER_DIRECTORY,
    }
    return ask(title, "RemoveRaftVoter", "0", **{**fields, **changed})


def describe(title: str, *, topic: str = TOPIC, index: int = 0, copies: int = 1) -> Ask:
    return ask(
        title,
        "DescribeQuorum",
        "0 1 2",
        topics=topics({"partition_index": index}, topic=topic, copies=copies),
    )


def _changed(
    fields: dict[str, Any], partition: dict[str, Any], changed: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Each change goes where a field of this name is; others are the partition's."""
    for name, value in changed.items():
        (fields if name in fields else partition)[name] = value
    return fields, partition


# A node at work, whoever leads: what is no request of its quorum.
WRONG: tuple[Ask, ...] = (
    vote("a vote for another cluster", cluster_id=OTHER_CLUSTER),
    vote("a vote on another topic", topic="other"),
    vote("a vote on another partition", partition_index=1),
    vote("a vote on two partitions", copies=2),
    vote("a vote on nothing", copies=0),
    vote("a vote at a negative offset", last_offset=-1),
    vote("a vote with a log of the future", last_offset_epoch=7, replica_epoch=5),
    vote("a vote with a negative epoch of the log", last_offset_epoch=-1),
    vote("a vote for nobody", replica_id=-1),
    begin("another cluster's leader", cluster_id=OTHER_CLUSTER),
    begin("a leader of another topic", topic="other"),
    begin("a leader of another partition", partition_index=1),
    begin("a leader of two partitions", copies=2),
    begin("a leader that is nobody", leader_id=-1),
    end("the end of another cluster's epoch", cluster_id=OTHER_CLUSTER),
    end("the end of another topic", topic="other"),
    end("the end of another partition", partition_index=1),
    end("the end of two partitions", copies=2),
    end("the end of an epoch without a leader", leader_id=-1),
    *fetches("fetch for another cluster", cluster_id=OTHER_CLUSTER),
    *fetches("fetch another topic", topic="other", topic_id=OTHER_TOPIC),
    *fetches("fetch another partition", partition=1),
    *fetches("fetch two partitions", copies=2),
    *fetches("fetch at a negative offset", fetch_offset=-1),
    *fetches("fetch with a negative epoch", last_fetched_epoch=-1),
    *fetches("fetch after an epoch of the future", last_fetched_epoch=9),
    *fetches("fetch with a negative wait", max_wait_ms=-1),
    snapshot("another cluster's snapshot", cluster_id=OTHER_CLUSTER),
    snapshot("another topic's snapshot", topic="other"),
    snapshot("another partition's snapshot", partition=1),
    snapshot("two snapshots", copies=2),
    update("a voter of another cluster", cluster_id=OTHER_CLUSTER),
    describe("the quorum of another topic", topic="other"),
    describe("the quorum of another partition", index=1),
    describe("the quorum of no partition", copies=0),
)


def principal(name: str = "alice") -> bytes:
    data = DefaultPrincipalData(type="User", name=name, token_authenticated=False)
    return struct.pack(">h", PRINCIPAL_VERSION) + data.encode(PRINCIPAL_VERSION)


def envelope(title: str, request: bytes, **changed: Any) -> Ask:
    fields: dict[str, Any] = {
        "request_data": request,
        "request_principal": principal(),
        "client_host_address": bytes((127, 0, 0, 1)),
    }
    return ask(title, "Envelope", "0", **{**fields, **changed})


def creation(name: str, version: int = 7) -> bytes:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
    return write_request(request, version, 5, "verify")[SIZE_BYTES:]


GROUPS = write_request(ListGroupsRequest(states_filter=[], types_filter=[]), 5, 5, "verify")[SIZE_BYTES:]
ENVELOPES: tuple[Ask, ...] = (
    envelope("an envelope with a request", creation("enveloped")),
    envelope("an envelope with an older request", creation("enveloped", 2)),
    envelope("an envelope without a principal", creation("x"), request_principal=None),
    envelope("an envelope with a broken principal", creation("x"), request_principal=b"\1\2\3"),
    envelope("an envelope with a broken address", creation("x"), client_host_address=b"\1\2\3"),
    envelope("an envelope with a broker's request", GROUPS),
    envelope("an envelope with an unknown request", raw_request(999, 0)[SIZE_BYTES:]),
    envelope("an envelope with an unknown version", raw_request(19, 99)[SIZE_BYTES:]),
    envelope("an envelope with half a request", creation("x")[:-4]),
    envelope("an empty envelope", b""),
)

BROKER = {
    "broker_id": 7,
    "cluster_id": CLUSTER_ID,
    "incarnation_id": OTHER_DIRECTORY,
    "listeners": [{"name": "PLAINTEXT", "host": "localhost", "port": 19093, "security_protocol": 0}],
    "features": [
        {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 27},
        {"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1},
        {"name": "group.version", "min_supported_version": 0, "max_supported_version": 1},
        {"name": "transaction.version", "min_supported_version": 0, "max_supported_version": 2},
        {"name": "eligible.leader.replicas.version", "min_supported_version": 0, "max_supported_version": 1},
        {"name": "share.version", "min_supported_version": 0, "max_supported_version": 1},
        {"name": "streams.version", "min_supported_version": 0, "max_supported_version": 1},
    ],
    "rack": None,
}


def register(title: str, versions: str = "0 1 2 3 4", **changed: Any) -> Ask:
    fields: dict[str, Any] = {**BROKER, **changed}
    if int(versions.split()[0]) >= 2:
        fields.setdefault("log_dirs", [OTHER_DIRECTORY])
    return ask(title, "BrokerRegistration", versions, **fields)


# What brokers and operators send to the active controller itself.
OLD = [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 8}]
CONTROLLERS: tuple[Ask, ...] = (
    register("a broker of another cluster", cluster_id=OTHER_CLUSTER),
    register("a broker of an old release", features=OLD),
    register("a broker without features", features=[]),
    register("a broker without directories", "2 3 4", log_dirs=[]),
    register("a broker with a directory twice", "2 3 4", log_dirs=[OTHER_DIRECTORY, OTHER_DIRECTORY]),
    register("a broker with the id of a controller's directory", "2 3 4", log_dirs=[ZERO_UUID]),
    ask("a heartbeat of an unknown broker", "BrokerHeartbeat", "0 1", broker_id=7, broker_epoch=1),
    ask("producer ids for an unknown broker", "AllocateProducerIds", "0", broker_id=7, broker_epoch=1),
    ask(
        "directories of an unknown broker",
        "AssignReplicasToDirs",
        "0",
        broker_id=7,
        broker_epoch=1,
        directories=[],
    ),
    ask("partitions of an unknown broker", "AlterPartition", "2 3", broker_id=7, broker_epoch=1, topics=[]),
    ask(
        "an ISR of an unknown broker",
        "AlterPartition",
        "2 3",
        broker_id=7,
        broker_epoch=1,
        topics=[
            {
                "topic_id": OTHER_TOPIC,
                "partitions": [{"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}],
            }
        ],
    ),
    ask("an unknown broker unregisters", "UnregisterBroker", "0", broker_id=7),
    ask(
        "a controller of an old release registers",
        "ControllerRegistration",
        "0",
        controller_id=102,
        incarnation_id=OTHER_DIRECTORY,
        zk_migration_ready=False,
        listeners=[{**CONTROLLER, "security_protocol": 0}],
        features=OLD,
    ),
    ask(
        "an unknown topic's options",
        "IncrementalAlterConfigs",
        "1",
        resources=[
            {
                "resource_type": 2,
                "resource_name": "unknown",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
            }
        ],
    ),
    ask("the controllers of the cluster", "DescribeCluster", "1 2", endpoint_type=2),
    ask("the brokers of the cluster", "DescribeCluster", "1 2", endpoint_type=1),
    ask("no partitions move", "ListPartitionReassignments", "0", timeout_ms=1000, topics=None),
    ask(
        "rules, without an authorizer",
        "DescribeAcls",
        "1 3",
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    ),
    ask("no quotas", "DescribeClientQuotas", "0 1", components=[], strict=False),
)

# A leader, the only voter, of epoch 1.
LEADER: tuple[Ask, ...] = (
    ask("versions", "ApiVersions", "0 3 4", **client()),
    *WRONG,
    *ENVELOPES,
    *CONTROLLERS,
    vote("a vote in the leader's epoch"),
    vote("a vote in an old epoch", replica_epoch=0),
    vote("a vote of another voter", "1 2", voter_id=PEER),
    vote("a vote of a lost disk", "1 2", voter_directory_id=OTHER_DIRECTORY),
    vote("a pre-vote in the leader's epoch", "2", pre_vote=True),
    vote("a pre-vote with a longer log", "2", pre_vote=True, last_offset_epoch=1, last_offset=1 << 40),
    begin("an old leader", leader_epoch=0),
    end("the end of an old epoch", leader_epoch=0),
    *fetches("fetch", replica=STRANGER),
    *fetches("fetch as a consumer", replica=-1),
    *fetches("fetch in an old epoch", current_leader_epoch=0),
    *fetches("fetch in a new epoch", current_leader_epoch=2),
    *fetches("fetch beyond the end", fetch_offset=1 << 40, last_fetched_epoch=1),
    *fetches("fetch after an epoch that has ended", fetch_offset=9, last_fetched_epoch=0),
    snapshot("an unknown snapshot"),
    snapshot("the first snapshot", snapshot_id={"end_offset": 0, "epoch": 0}),
    snapshot("a negative position", position=-1),
    snapshot("a position out of range", position=1 << 40),
    snapshot("a snapshot in an old epoch", current_leader_epoch=0),
    snapshot("a snapshot in a new epoch", current_leader_epoch=2),
    update("update an unknown voter"),
    update("update a voter in an old epoch", current_leader_epoch=0),
    update("update a voter in a new epoch", current_leader_epoch=2),
    update("update a voter without listeners", listeners=[]),
    update(
        "update to an old release",
        kraft_version_feature={"min_supported_version": 0, "max_supported_version": 0},
    ),
    describe("the quorum"),
    add("add a voter to another cluster", cluster_id=OTHER_CLUSTER),
    add("add a voter that cannot be reached"),
    add("add a voter without listeners", listeners=[]),
    add("add a voter on another listener", listeners=[{**CONTROLLER, "name": "OTHER"}]),
    add("add a voter without a directory", voter_directory_id=ZERO_UUID),
    add("add a voter with a negative id", voter_id=-1),
    add("add a voter twice", voter_id=ME),
    remove("remove a voter from another cluster", cluster_id=OTHER_CLUSTER),
    remove("remove a stranger"),
    remove("remove a voter by a lost disk", voter_id=ME),
    remove("remove without a directory", voter_directory_id=ZERO_UUID),
    remove("remove a negative id", voter_id=-1),
)

# What only the active controller decides.
CHANGES: tuple[Ask, ...] = (
    ask(
        "create a topic at a follower",
        "CreateTopics",
        "2 5 7",
        timeout_ms=1000,
        topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}],
    ),
    ask("delete a topic at a follower", "DeleteTopics", "6", timeout_ms=1000, topics=[{"name": "t"}]),
    ask(
        "add partitions at a follower",
        "CreatePartitions",
        "3",
        timeout_ms=1000,
        topics=[{"name": "t", "count": 2, "assignments": None}],
        validate_only=False,
    ),
    ask(
        "alter a broker at a follower",
        "IncrementalAlterConfigs",
        "1",
        resources=[
            {
                "resource_type": 4,
                "resource_name": "1",
                "configs": [{"name": "background.threads", "config_operation": 0, "value": "7"}],
            }
        ],
    ),
    ask(
        "elect leaders at a follower",
        "ElectLeaders",
        "2",
        election_type=0,
        timeout_ms=1000,
        topic_partitions=None,
    ),
    ask(
        "move partitions at a follower",
        "AlterPartitionReassignments",
        "0",
        timeout_ms=1000,
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    ),
    ask("moves at a follower", "ListPartitionReassignments", "0", timeout_ms=1000, topics=None),
    ask(
        "a feature at a follower",
        "UpdateFeatures",
        "2",
        timeout_ms=1000,
        validate_only=False,
        feature_updates=[{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}],
    ),
    ask("unregister at a follower", "UnregisterBroker", "0", broker_id=7),
    ask("a heartbeat at a follower", "BrokerHeartbeat", "0 1", broker_id=7, broker_epoch=1),
    ask("producer ids at a follower", "AllocateProducerIds", "0", broker_id=7, broker_epoch=1),
    ask(
        "an ISR at a follower",
        "AlterPartition",
        "2 3",
        broker_id=7,
        broker_epoch=1,
        topics=[
            {
                "topic_id": OTHER_TOPIC,
                "partitions": [{"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}],
            }
        ],
    ),
    ask(
        "quotas at a follower",
        "AlterClientQuotas",
        "1",
        validate_only=False,
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "u"}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
            }
        ],
    ),
)

# A voter of three whose others do not run: the requests take it from epoch to epoch, and every one is answered.
VOTER: tuple[Ask, ...] = (
    vote("a pre-vote before any epoch", "2", replica_epoch=0, pre_vote=True),
    vote("a vote in epoch 1, refused for its voter", "1", voter_id=PEER),
    vote("a vote in epoch 1, refused for its disk", "1", voter_directory_id=OTHER_DIRECTORY),
    vote("a vote in epoch 1", "1"),
    vote("the same vote again", "0 1 2"),
    vote("another's vote in epoch 1", "0 1 2", replica_id=THIRD),
    vote("another directory's vote in epoch 1", "1 2", replica_directory_id=OTHER_TOPIC),
    vote("a pre-vote of another in epoch 1", "2", replica_id=THIRD, pre_vote=True),
    *fetches("fetch from a voter without a leader"),
    snapshot("a snapshot from a voter without a leader"),
    update("update a voter without a leader"),
    describe("the quorum of a voter without a leader"),
    vote("a stranger's vote in epoch 2", "1", replica_epoch=2, replica_id=STRANGER),
    vote("a vote in epoch 3", "0", replica_epoch=3),
    begin("the leader of epoch 3", "1", leader_epoch=3),
    begin("the leader of epoch 3 again", leader_epoch=3),
    begin("the leader of epoch 3 to another voter", "1", leader_epoch=3, voter_id=PEER),
    begin("the leader of epoch 3 to a lost disk", "1", leader_epoch=3, voter_directory_id=OTHER_DIRECTORY),
    begin("an old leader of epoch 2", leader_epoch=2),
    vote("a vote in the epoch of a leader", replica_epoch=3, replica_id=THIRD),
    vote("the leader's own vote again", replica_epoch=3),
    vote("a vote in an old epoch", replica_epoch=2),
    vote(
        "a pre-vote at a follower that never fetched", "2", replica_epoch=3, replica_id=THIRD, pre_vote=True
    ),
    *WRONG,
    *fetches("fetch from a follower", current_leader_epoch=3),
    *fetches("fetch from a follower in an old epoch", current_leader_epoch=2),
    *fetches("fetch from a follower in a new epoch", current_leader_epoch=4),
    snapshot("a snapshot from a follower", current_leader_epoch=3),
    snapshot("a snapshot from a follower in an old epoch", current_leader_epoch=2),
    snapshot("a snapshot from a follower in a new epoch", current_leader_epoch=4),
    update("update a voter at a follower", current_leader_epoch=3),
    update("update a voter at a follower in an old epoch", current_leader_epoch=2),
    describe("the quorum of a follower"),
    add("add a voter at a follower"),
    remove("remove a voter at a follower"),
    envelope("an envelope to a follower", creation("enveloped")),
    register("register with a follower", "4"),
    *CHANGES,
    end("the end of an old epoch", leader_epoch=2),
    vote("a higher epoch of a voter without records", "1", replica_epoch=5),
    begin("the leader of epoch 5", "1", leader_epoch=5),
    end(
        "the end of epoch 5",
        "1",
        leader_epoch=5,
        preferred_candidates=[{"candidate_id": THIRD, "candidate_directory_id": OTHER_DIRECTORY}],
    ),
    describe("the quorum at the end of epoch 5"),
)
