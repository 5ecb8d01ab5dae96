"""The Raft node's responses as responses of the protocol, both ways.

A leader's endpoints are in a field of the whole response, without the name of their listener: it is the one
that the request came in on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.batch.control import QuorumMessage, read_quorum_message
from barnabas.batch.view import batches
from barnabas.broker.modes.kraft.quorum.requests import PARTITION, TOPIC_IDS_VERSION
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from barnabas.protocol.messages.vote import VoteResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import VoterEndpoint

KRAFT_VERSION = "kraft.version"
_Partition = TypeVar("_Partition", covariant=True)
# The first version of a Fetch response that says who leads, where logs diverge, which snapshot to fetch.
FETCH_QUORUM_VERSION = 12
# The first one with the leader's endpoint.
FETCH_ENDPOINTS_VERSION = 17


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


def endpoint_of(leader: rpc.LeaderAndEpoch, listener: str) -> VoterEndpoint | None:
    """The leader's endpoint on this listener."""
    return next((each for each in leader.endpoints if each.name == listener), None)


def _leader(leader_id: int, epoch: int, nodes: Iterable[_NodeEndpoint], listener: str) -> rpc.LeaderAndEpoch:
    endpoints = tuple(
        VoterEndpoint(listener, node.host, node.port) for node in nodes if node.node_id == leader_id
    )
    return rpc.LeaderAndEpoch(epoch, leader_id if leader_id >= 0 else NOBODY, endpoints)


# ------------------------------------------------------------------------------------------------- encoding


def encode_vote(response: rpc.VoteResponse, version: int, listener: str) -> VoteResponse:
    leader = response.leader
    partition = VoteResponse.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        vote_granted=response.granted,
    )
    topic = VoteResponse.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    message = VoteResponse(error_code=0, topics=[topic])
    endpoint = endpoint_of(leader, listener)
    if endpoint is not None and version >= 1:
        node = VoteResponse.NodeEndpoint(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port)
        message.node_endpoints = [node]
    return message


def encode_begin_quorum_epoch(
    response: rpc.BeginQuorumEpochResponse, version: int, listener: str
) -> BeginQuorumEpochResponse:
    leader = response.leader
    partition = BeginQuorumEpochResponse.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
    )
    topic = BeginQuorumEpochResponse.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    message = BeginQuorumEpochResponse(error_code=0, topics=[topic])
    endpoint = endpoint_of(leader, listener)
    if endpoint is not None and version >= 1:
        node = BeginQuorumEpochResponse.NodeEndpoint(
            node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
        )
        message.node_endpoints = [node]
    return message


def encode_end_quorum_epoch(
    response: rpc.EndQuorumEpochResponse, version: int, listener: str
) -> EndQuorumEpochResponse:
    leader = response.leader
    partition = EndQuorumEpochResponse.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
    )
    topic = EndQuorumEpochResponse.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    message = EndQuorumEpochResponse(error_code=0, topics=[topic])
    endpoint = endpoint_of(leader, listener)
    if endpoint is not None and version >= 1:
        node = EndQuorumEpochResponse.NodeEndpoint(
            node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
        )
        message.node_endpoints = [node]
    return message


def encode_fetch(
    log_start_offset: int, response: rpc.FetchResponse, version: int, listener: str
) -> FetchResponse:
    leader = response.leader
    partition = FetchResponse.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=[],
        records=cast("Any", response.records if response.records is not None else b""),
    )
    has_quorum_fields = version >= FETCH_QUORUM_VERSION
    if has_quorum_fields:
        partition.current_leader = FetchResponse.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        )
    if response.diverging is not None and has_quorum_fields:
        partition.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=response.diverging.epoch, end_offset=response.diverging.offset
        )
    if response.snapshot is not None and has_quorum_fields:
        partition.snapshot_id = FetchResponse.SnapshotId(
            end_offset=response.snapshot.offset, epoch=response.snapshot.epoch
        )
    has_ids = version >= TOPIC_IDS_VERSION
    topic = FetchResponse.FetchableTopicResponse(
        topic="" if has_ids else CLUSTER_METADATA,
        topic_id=METADATA_TOPIC_ID if has_ids else ZERO_UUID,
        partitions=[partition],
    )
    message = FetchResponse(throttle_time_ms=0, responses=[topic])
    endpoint = endpoint_of(leader, listener)
    if endpoint is not None and version >= FETCH_ENDPOINTS_VERSION:
        node = FetchResponse.NodeEndpoint(node_id=leader.leader_id, host=endpoint.host, port=endpoint.port)
        message.node_endpoints = [node]
    return message


def encode_fetch_snapshot(
    response: rpc.FetchSnapshotResponse, version: int, listener: str
) -> FetchSnapshotResponse:
    leader = response.leader
    snapshot = response.snapshot if response.snapshot is not None else SnapshotId(0, 0)
    partition = FetchSnapshotResponse.PartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])
    message = FetchSnapshotResponse(throttle_time_ms=0, error_code=0, topics=[topic])
    endpoint = endpoint_of(leader, listener)
    if endpoint is not None and version >= 1:
        node = FetchSnapshotResponse.NodeEndpoint(
            node_id=leader.leader_id, host=endpoint.host, port=endpoint.port
        )
        message.node_endpoints = [node]
    return message


def encode_update_voter(
    response: rpc.VoterChangeResponse, version: int, listener: str
) -> UpdateRaftVoterResponse:
    leader = response.leader
    endpoint = endpoint_of(leader, listener)
    return UpdateRaftVoterResponse(
        throttle_time_ms=0,
        error_code=response.error,
        current_leader=UpdateRaftVoterResponse.CurrentLeader(
            leader_id=leader.leader_id,
            leader_epoch=leader.epoch,
            host="" if endpoint is None else endpoint.host,
            port=0 if endpoint is None else endpoint.port,
        ),
    )


# ------------------------------------------------------------------------------------------------- decoding


def decode_response(message: Message, listener: str) -> rpc.PeerResponse | None:
    """The message of another node; None if it is of no use: an error of the whole request."""
    match message:
        case FetchResponse(error_code=0):
            return _read_fetch(message, listener)
        case VoteResponse(error_code=0):
            return _read_vote(message, listener)
        case BeginQuorumEpochResponse(error_code=0):
            begin = _only(message.topics)
            leader = _leader(begin.leader_id, begin.leader_epoch, message.node_endpoints, listener)
            return rpc.BeginQuorumEpochResponse(leader, ErrorCode(begin.error_code))
        case EndQuorumEpochResponse(error_code=0):
            end = _only(message.topics)
            leader = _leader(end.leader_id, end.leader_epoch, message.node_endpoints, listener)
            return rpc.EndQuorumEpochResponse(leader, ErrorCode(end.error_code))
        case FetchSnapshotResponse(error_code=0):
            return _read_fetch_snapshot(message, listener)
        case UpdateRaftVoterResponse():
            return _read_update_voter(message, listener)
        case AddRaftVoterResponse() | RemoveRaftVoterResponse():
            # It does not say who leads: the next fetch does.
            return None
        case ApiVersionsResponse():
            return _read_versions(message)
    return None


class _Topic(Protocol[_Partition]):
    @property
    def partitions(self) -> Sequence[_Partition]: ...


def _only(topics: Sequence[_Topic[_Partition]]) -> _Partition:
    """The one partition that a response is about; raises ProtocolError."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise ProtocolError("the response is not about the one partition of the metadata log")
    return topics[0].partitions[0]


def _read_vote(message: VoteResponse, listener: str) -> rpc.VoteResponse:
    partition = _only(message.topics)
    leader = _leader(partition.leader_id, partition.leader_epoch, message.node_endpoints, listener)
    return rpc.VoteResponse(leader, partition.vote_granted, ErrorCode(partition.error_code))


def _read_fetch(message: FetchResponse, listener: str) -> rpc.FetchResponse:
    partition = _only(message.responses)
    current = partition.current_leader
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return rpc.FetchResponse(
        _leader(current.leader_id, current.leader_epoch, message.node_endpoints, listener),
        ErrorCode(partition.error_code),
        partition.high_watermark,
        OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
        SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
        batches=tuple(read_batches(_bytes(partition.records))),
    )


def _bytes(records: object) -> bytes:
    """Records that were received are in memory, unlike those of a response that is sent."""
    assert isinstance(records, bytes | bytearray | memoryview | None), "a response was received"
    return b"" if records is None else bytes(records)


def read_batches(records: bytes) -> Iterable[rpc.FetchedBatch]:
    """The batches of a fetch, checked; raises CorruptBatch."""
    for batch in batches(memoryview(records)):
        batch.ensure_valid()
        control: tuple[QuorumMessage | None, ...] = ()
        if batch.is_control:
            control = tuple(read_quorum_message(record) for record in batch.records())
        data = batch.copy()
        yield rpc.FetchedBatch(batch.base_offset, batch.next_offset, batch.leader_epoch, data, control)


def _read_fetch_snapshot(message: FetchSnapshotResponse, listener: str) -> rpc.FetchSnapshotResponse:
    partition = _only(message.topics)
    current, snapshot = partition.current_leader, partition.snapshot_id
    return rpc.FetchSnapshotResponse(
        _leader(current.leader_id, current.leader_epoch, message.node_endpoints, listener),
        ErrorCode(partition.error_code),
        SnapshotId(snapshot.end_offset, snapshot.epoch),
        partition.position,
        partition.size,
        _bytes(partition.unaligned_records),
    )


def _read_update_voter(message: UpdateRaftVoterResponse, listener: str) -> rpc.VoterChangeResponse:
    current = message.current_leader
    endpoints = (VoterEndpoint(listener, current.host, current.port),) if current.host else ()
    leader = rpc.LeaderAndEpoch(
        current.leader_epoch, current.leader_id if current.leader_id >= 0 else NOBODY, endpoints
    )
    return rpc.VoterChangeResponse(leader, ErrorCode(message.error_code))


def _read_versions(message: ApiVersionsResponse) -> rpc.SupportedVersionsResponse:
    """The range of kraft.version; a node that does not name it supports only 0."""
    feature = next((each for each in message.supported_features if each.name == KRAFT_VERSION), None)
    if feature is None:
        return rpc.SupportedVersionsResponse(0, 0, ErrorCode(message.error_code))
    return rpc.SupportedVersionsResponse(
        feature.min_version, feature.max_version, ErrorCode(message.error_code)
    )
