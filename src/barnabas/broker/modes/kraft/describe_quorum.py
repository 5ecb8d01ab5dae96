"""DescribeQuorum: the state of the metadata log's voters (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.raft.node import RaftNode
from barnabas.raft.roles import Leader
from barnabas.raft.voters import Voter

METADATA_PARTITION = 0
UNKNOWN_OFFSET = -1
# The first version with directory ids and endpoints of voters.
DIRECTORIES_VERSION = 2

_Response = DescribeQuorumResponse


def describe_quorum(
    node: RaftNode, request: DescribeQuorumRequest, version: int, now_ms: int
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
        return _Response(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message=ERRORS[ErrorCode.NOT_LEADER_OR_FOLLOWER].text,
            topics=[],
        )
    high_watermark = role.progress.high_watermark
    partition = _Response.PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=0,
        leader_id=node.me.id,
        leader_epoch=role.epoch,
        high_watermark=UNKNOWN_OFFSET if high_watermark is None else high_watermark,
        current_voters=[_voter(node, role, voter, version, now_ms) for voter in node.voters],
        observers=[],
    )
    response = _Response(
        error_code=0, topics=[_Response.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])]
    )
    if version >= DIRECTORIES_VERSION:
        response.nodes = [_node(voter) for voter in node.voters]
    return response


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        _Response.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _Response.PartitionData(
                    partition_index=partition.partition_index,
                    error_code=code,
                    error_message=ERRORS[code].text,
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return _Response(error_code=0, topics=topics)


def _voter(
    node: RaftNode, leader: Leader, voter: Voter, version: int, now_ms: int
) -> DescribeQuorumResponse.ReplicaState:
    is_me = voter.id == node.me.id
    end_offset = node.end_offset if is_me else leader.progress.end_of(voter.id)
    return _Response.ReplicaState(
        replica_id=voter.id,
        replica_directory_id=voter.directory_id if version >= DIRECTORIES_VERSION else ZERO_UUID,
        log_end_offset=UNKNOWN_OFFSET if end_offset is None else end_offset,
        last_fetch_timestamp=now_ms if is_me else UNKNOWN_OFFSET,
        last_caught_up_timestamp=now_ms if is_me else UNKNOWN_OFFSET,
    )


def _node(voter: Voter) -> DescribeQuorumResponse.Node:
    listeners = [
        _Response.Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
        for endpoint in voter.endpoints
    ]
    return _Response.Node(node_id=voter.id, listeners=listeners)
