"""The Raft node's requests as requests of the protocol, both ways (KIP-595, KIP-630, KIP-853).

Every request is about the one partition of the metadata log; any other is refused as invalid.  Fields that an
older version lacks have their defaults: a voter without a directory id, a leader without endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.base.units import NS_PER_MS
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.snapshot import MAX_BATCH_BYTES, SnapshotId
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint

PARTITION = 0
NO_VOTER = -1
# Fetch names topics by id from this version on, and replicas in a field of their own.
TOPIC_IDS_VERSION = 13
REPLICA_STATE_VERSION = 15
# AddRaftVoter may be answered before the change is committed.
ACK_BEFORE_COMMIT_VERSION = 1

_Partition = TypeVar("_Partition", covariant=True)


class _Topic(Protocol[_Partition]):
    @property
    def partitions(self) -> Sequence[_Partition]: ...


class _Listener(Protocol):
    name: str
    host: str
    port: int


def encode_request(request: rpc.PeerRequest, cluster_id: str, version: int) -> Message:
    """The protocol's request for a message of this node."""
    match request:
        case rpc.FetchRequest():
            return _fetch(request, cluster_id, version)
        case rpc.VoteRequest():
            return _vote(request, cluster_id)
        case rpc.BeginQuorumEpochRequest():
            return _begin_quorum_epoch(request, cluster_id)
        case rpc.EndQuorumEpochRequest():
            return _end_quorum_epoch(request, cluster_id)
        case rpc.FetchSnapshotRequest():
            return _fetch_snapshot(request, cluster_id)
        case rpc.UpdateVoterRequest():
            return _update_voter(request, cluster_id)
        case rpc.AddVoterRequest():
            return _add_voter(request, cluster_id, version)
        case rpc.RemoveVoterRequest(voter):
            return RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=voter.id, voter_directory_id=voter.directory_id
            )
    raise TypeError(f"{type(request).__name__} is not sent as a request of its own")


def decode_request(message: Message, version: int) -> rpc.PeerRequest:
    """The message of another node; raises KafkaError if it is not about the metadata log."""
    match message:
        case FetchRequest():
            return _read_fetch(message, version)
        case VoteRequest():
            return _read_vote(message)
        case BeginQuorumEpochRequest():
            return _read_begin_quorum_epoch(message)
        case EndQuorumEpochRequest():
            return _read_end_quorum_epoch(message)
        case FetchSnapshotRequest():
            return _read_fetch_snapshot(message)
        case UpdateRaftVoterRequest():
            return _read_update_voter(message)
        case AddRaftVoterRequest():
            return _read_add_voter(message)
        case RemoveRaftVoterRequest():
            return rpc.RemoveVoterRequest(_key(message.voter_id, message.voter_directory_id))
    raise TypeError(f"{type(message).__name__} is no request of the quorum")


def _key(node_id: int, directory_id: bytes) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid(directory_id))


def _endpoints(listeners: Iterable[_Listener]) -> tuple[VoterEndpoint, ...]:
    return tuple(VoterEndpoint(each.name, each.host, each.port) for each in listeners)


def _only(name: object, topics: Sequence[_Topic[_Partition]]) -> _Partition:
    """The one partition that a request is about."""
    if name not in (CLUSTER_METADATA, METADATA_TOPIC_ID) or len(topics[0].partitions) != 1:
        raise _not_metadata()
    return topics[0].partitions[0]


def _check_partition(index: int) -> None:
    if index != PARTITION:
        raise _not_metadata()


def _not_metadata() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"the request is not about the one partition of {CLUSTER_METADATA}"
    )


# ---------------------------------------------------------------------------------------------- Vote


def _vote(request: rpc.VoteRequest, cluster_id: str) -> VoteRequest:
    voter = request.voter if request.voter is not None else ReplicaKey(NO_VOTER)
    partition = VoteRequest.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    topic = VoteRequest.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def _read_vote(message: VoteRequest) -> rpc.VoteRequest:
    if len(message.topics) != 1:
        raise _not_metadata()
    partition = _only(message.topics[0].topic_name, message.topics)
    _check_partition(partition.partition_index)
    return rpc.VoteRequest(
        _key(partition.replica_id, partition.replica_directory_id),
        partition.replica_epoch,
        OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        partition.pre_vote,
        _voter_key(message.voter_id, partition.voter_directory_id),
    )


def _voter_key(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    """The voter that a request is meant for; none before KIP-853."""
    return None if voter_id < 0 else _key(voter_id, directory_id)


# -------------------------------------------------------------------------- BeginQuorumEpoch, EndQuorumEpoch


def _begin_quorum_epoch(request: rpc.BeginQuorumEpochRequest, cluster_id: str) -> BeginQuorumEpochRequest:
    voter = request.voter if request.voter is not None else ReplicaKey(NO_VOTER)
    partition = BeginQuorumEpochRequest.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader.leader_id,
        leader_epoch=request.leader.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[BeginQuorumEpochRequest.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in request.leader.endpoints
        ],
    )


def _read_begin_quorum_epoch(message: BeginQuorumEpochRequest) -> rpc.BeginQuorumEpochRequest:
    if len(message.topics) != 1:
        raise _not_metadata()
    partition = _only(message.topics[0].topic_name, message.topics)
    _check_partition(partition.partition_index)
    leader = rpc.LeaderAndEpoch(
        partition.leader_epoch, partition.leader_id, _endpoints(message.leader_endpoints)
    )
    return rpc.BeginQuorumEpochRequest(leader, _voter_key(message.voter_id, partition.voter_directory_id))


def _end_quorum_epoch(request: rpc.EndQuorumEpochRequest, cluster_id: str) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequest.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader.leader_id,
        leader_epoch=request.leader.epoch,
        preferred_successors=[each.id for each in request.preferred_candidates],
        preferred_candidates=[
            EndQuorumEpochRequest.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in request.preferred_candidates
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[EndQuorumEpochRequest.TopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port)
            for each in request.leader.endpoints
        ],
    )


def _read_end_quorum_epoch(message: EndQuorumEpochRequest) -> rpc.EndQuorumEpochRequest:
    if len(message.topics) != 1:
        raise _not_metadata()
    partition = _only(message.topics[0].topic_name, message.topics)
    _check_partition(partition.partition_index)
    leader = rpc.LeaderAndEpoch(
        partition.leader_epoch, partition.leader_id, _endpoints(message.leader_endpoints)
    )
    candidates = [
        _key(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
    ] or [ReplicaKey(node_id) for node_id in partition.preferred_successors]
    return rpc.EndQuorumEpochRequest(leader, tuple(candidates))


# ------------------------------------------------------------------------------------- Fetch, FetchSnapshot


def _fetch(request: rpc.FetchRequest, cluster_id: str, version: int) -> FetchRequest:
    partition = FetchRequest.Partition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        log_start_offset=-1,
        partition_max_bytes=0,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    has_ids = version >= TOPIC_IDS_VERSION
    topic = FetchRequest.Topic(
        topic="" if has_ids else CLUSTER_METADATA,
        topic_id=METADATA_TOPIC_ID if has_ids else ZERO_UUID,
        partitions=[partition],
    )
    message = FetchRequest(
        cluster_id=cluster_id,
        max_wait_ms=request.max_wait_ns // NS_PER_MS,
        min_bytes=0,
        max_bytes=MAX_BATCH_BYTES,
        topics=[topic],
    )
    if version >= REPLICA_STATE_VERSION:
        message.replica_state = FetchRequest.ReplicaState(replica_id=request.replica.id)
    else:
        message.replica_id = request.replica.id
    return message


def _read_fetch(message: FetchRequest, version: int) -> rpc.FetchRequest:
    if len(message.topics) != 1 or version < TOPIC_IDS_VERSION:
        # Apache Kafka's controllers know the metadata log by its id alone, too.
        raise _not_metadata()
    partition = _only(message.topics[0].topic_id, message.topics)
    _check_partition(partition.partition)
    is_new = version >= REPLICA_STATE_VERSION
    replica_id = message.replica_state.replica_id if is_new else message.replica_id
    return rpc.FetchRequest(
        _key(replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        message.max_wait_ms * NS_PER_MS,
        partition.high_watermark,
    )


def _fetch_snapshot(request: rpc.FetchSnapshotRequest, cluster_id: str) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=FetchSnapshotRequest.SnapshotId(
            end_offset=request.snapshot.offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=MAX_BATCH_BYTES,
        topics=[FetchSnapshotRequest.TopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
    )


def _read_fetch_snapshot(message: FetchSnapshotRequest) -> rpc.FetchSnapshotRequest:
    if len(message.topics) != 1:
        raise _not_metadata()
    partition = _only(message.topics[0].name, message.topics)
    _check_partition(partition.partition)
    snapshot = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    replica = _key(message.replica_id, partition.replica_directory_id)
    return rpc.FetchSnapshotRequest(replica, partition.current_leader_epoch, snapshot, partition.position)


# --------------------------------------------------------------------------------------------------- voters


def _update_voter(request: rpc.UpdateVoterRequest, cluster_id: str) -> UpdateRaftVoterRequest:
    voter = request.voter
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        listeners=[
            UpdateRaftVoterRequest.Listener(name=each.name, host=each.host, port=each.port)
            for each in voter.endpoints
        ],
        kraft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(
            min_supported_version=voter.lowest_version, max_supported_version=voter.highest_version
        ),
    )


def _read_update_voter(message: UpdateRaftVoterRequest) -> rpc.UpdateVoterRequest:
    feature = message.kraft_version_feature
    voter = Voter(
        message.voter_id,
        Uuid(message.voter_directory_id),
        _endpoints(message.listeners),
        feature.min_supported_version,
        feature.max_supported_version,
    )
    return rpc.UpdateVoterRequest(message.current_leader_epoch, voter)


def _add_voter(request: rpc.AddVoterRequest, cluster_id: str, version: int) -> AddRaftVoterRequest:
    """A leader without version 1 responds when the change is committed, or not in time; both do."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=request.timeout_ns // NS_PER_MS,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
        listeners=[
            AddRaftVoterRequest.Listener(name=each.name, host=each.host, port=each.port)
            for each in request.voter.endpoints
        ],
        ack_when_committed=request.ack_when_committed or version < ACK_BEFORE_COMMIT_VERSION,
    )


def _read_add_voter(message: AddRaftVoterRequest) -> rpc.AddVoterRequest:
    voter = Voter(message.voter_id, Uuid(message.voter_directory_id), _endpoints(message.listeners))
    return rpc.AddVoterRequest(voter, message.timeout_ms * NS_PER_MS, message.ack_when_committed)
