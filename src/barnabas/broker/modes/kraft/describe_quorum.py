"""DescribeQuorum: the state of the metadata log's voters (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.base.units import NS_PER_MS
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.raft.node import RaftNode
from barnabas.raft.progress import ReplicaState
from barnabas.raft.roles import Leader
from barnabas.raft.voters import ReplicaKey, Voter
from barnabas.runtime.clock import Clock

METADATA_PARTITION = 0
UNKNOWN_OFFSET = -1
NEVER = -1
# The first version with directory ids and endpoints of voters.
DIRECTORIES_VERSION = 2

_Response = DescribeQuorumResponse


def describe_quorum(
    node: RaftNode, request: DescribeQuorumRequest, version: int, clock: Clock
) -> DescribeQuorumResponse:
    """Describes the only partition; if another one is requested, all requested ones get an error."""
    requested = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if requested != [(CLUSTER_METADATA, METADATA_PARTITION)]:
        return _unknown(request)
    role = node.role
    if not isinstance(role, Leader):
        error = _partition_error(METADATA_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _Response(
            error_code=0, topics=[_Response.TopicData(topic_name=CLUSTER_METADATA, partitions=[error])]
        )
    replicas = _Replicas(node, role, version, clock)
    high_watermark = role.progress.high_watermark
    partition = _Response.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=0,
        leader_id=node.me.id,
        leader_epoch=role.epoch,
        high_watermark=UNKNOWN_OFFSET if high_watermark is None else high_watermark,
        current_voters=replicas.voters(),
        observers=replicas.observers(),
    )
    response = _Response(
        error_code=0, topics=[_Response.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])]
    )
    if version >= DIRECTORIES_VERSION:
        response.nodes = [_node(voter) for voter in node.voters]
    return response


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    # A partition that is requested more than once has one result.
    results: dict[int, DescribeQuorumResponse.PartitionData] = {}
    topics = []
    for topic in request.topics:
        indexes = [partition.partition_index for partition in topic.partitions]
        for index in indexes:
            if index not in results:
                results[index] = _partition_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topics.append(
            _Response.TopicData(topic_name=topic.topic_name, partitions=[results[index] for index in indexes])
        )
    return _Response(error_code=0, topics=topics)


def _partition_error(index: int, code: ErrorCode) -> DescribeQuorumResponse.PartitionData:
    return _Response.PartitionData(
        partition_index=index,
        error_code=code,
        error_message=ERRORS[code].text,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


class _Replicas:
    """The leader's view of the replicas, whose times are converted from its monotonic clock."""

    def __init__(self, node: RaftNode, leader: Leader, version: int, clock: Clock) -> None:
        self._node = node
        self._leader = leader
        self._has_directories = version >= DIRECTORIES_VERSION
        self._now_ms = clock.wall_ms()
        self._now_ns = clock.monotonic_ns()

    def voters(self) -> list[DescribeQuorumResponse.ReplicaState]:
        return [self._describe(voter.key) for voter in self._node.voters]

    def observers(self) -> list[DescribeQuorumResponse.ReplicaState]:
        """Brokers and other controllers that fetch; also a leader that is no longer a voter."""
        # A replica without an id only looks, as a shell does.
        keys = [key for key, _ in self._leader.progress.observers(self._now_ns) if key.id >= 0]
        if not self._leader.progress.is_voter(self._node.me.key):
            keys.append(self._node.me.key)
        return [self._describe(key) for key in sorted(keys)]

    def _describe(self, key: ReplicaKey) -> DescribeQuorumResponse.ReplicaState:
        directory_id = key.directory_id if self._has_directories else ZERO_UUID
        if key.id == self._node.me.id:
            # The leader is always caught up with itself.
            return _Response.ReplicaState(
                replica_id=key.id,
                replica_directory_id=directory_id,
                log_end_offset=self._node.end_offset,
                last_fetch_timestamp=self._now_ms,
                last_caught_up_timestamp=self._now_ms,
            )
        state = self._leader.progress.state_of(key) or ReplicaState()
        return _Response.ReplicaState(
            replica_id=key.id,
            replica_directory_id=directory_id,
            log_end_offset=UNKNOWN_OFFSET if state.end_offset is None else state.end_offset,
            last_fetch_timestamp=self._wall_ms(state.last_fetch_ns),
            last_caught_up_timestamp=self._wall_ms(state.last_caught_up_ns),
        )

    def _wall_ms(self, time_ns: int | None) -> int:
        return NEVER if time_ns is None else self._now_ms - (self._now_ns - time_ns) // NS_PER_MS


def _node(voter: Voter) -> DescribeQuorumResponse.Node:
    listeners = [
        _Response.Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
        for endpoint in voter.endpoints
    ]
    return _Response.Node(node_id=voter.id, listeners=listeners)
