"""Requests of the quorum on the wire: those that are not about the one partition of the metadata log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import METADATA_TOPIC_ID, Uuid
from barnabas.broker.handlers import fetch_metadata_log
from barnabas.broker.modes.kraft.quorum.requests import decode_request, encode_request
from barnabas.broker.modes.kraft.quorum.responses import encode_fetch
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.log import OffsetAndEpoch
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import ReplicaKey, Voter, VoterEndpoint

ME, PEER = ReplicaKey(1, Uuid(bytes([1] * 16))), ReplicaKey(2, Uuid(bytes([2] * 16)))
ENDPOINT = VoterEndpoint("CONTROLLER", "localhost", 9093)
LEADER = rpc.LeaderAndEpoch(3, 2, (ENDPOINT,))
REQUESTS: list[tuple[rpc.PeerRequest, int, str]] = [
    (rpc.VoteRequest(PEER, 3, OffsetAndEpoch(7, 2), False, ME), 2, "partition_index"),
    (rpc.BeginQuorumEpochRequest(LEADER, ME), 1, "partition_index"),
    (rpc.EndQuorumEpochRequest(LEADER, (ME,)), 1, "partition_index"),
    (rpc.FetchRequest(PEER, 3, 7, 2, 0, 5), 18, "partition"),
    (rpc.FetchSnapshotRequest(PEER, 3, SnapshotId(7, 2), 0), 1, "partition"),
]
IDS = [type(request).__name__ for request, *_ in REQUESTS]


def _message(request: rpc.PeerRequest, version: int) -> Any:
    return encode_request(request, "cluster", version)


def _refused(message: Message, version: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        decode_request(message, version)
    return refused.value.code


@pytest.mark.parametrize(("request_", "version", "_"), REQUESTS, ids=IDS)
def test_requests_go_through_the_wire(request_: rpc.PeerRequest, version: int, _: str) -> None:
    assert decode_request(_message(request_, version), version) == request_


@pytest.mark.parametrize(
    ("version", "ack_when_committed", "sent"), [(1, False, False), (1, True, True), (0, False, True)]
)
def test_when_an_added_voter_is_acknowledged(version: int, ack_when_committed: bool, sent: bool) -> None:
    """AddRaftVoter 1, of Apache Kafka 4.2: a leader that has version 0 alone waits for the commit."""
    # M-C7
    voter = Voter(PEER.id, PEER.directory_id, (ENDPOINT,))
    request = rpc.AddVoterRequest(voter, 2_000_000_000, ack_when_committed)
    message = AddRaftVoterRequest.decode(_message(request, version).encode(version), version)
    assert decode_request(message, version) == replace(request, ack_when_committed=sent)


@pytest.mark.parametrize(("request_", "version", "index"), REQUESTS, ids=IDS)
def test_another_partition_is_refused(request_: rpc.PeerRequest, version: int, index: str) -> None:
    """A vote on partition 1 counted as one on the metadata log."""
    message = _message(request_, version)
    setattr(message.topics[0].partitions[0], index, 1)
    assert _refused(message, version) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("request_", "version", "_"), REQUESTS, ids=IDS)
def test_two_partitions_or_topics_are_refused(request_: rpc.PeerRequest, version: int, _: str) -> None:
    message = _message(request_, version)
    message.topics[0].partitions *= 2
    assert _refused(message, version) is ErrorCode.INVALID_REQUEST
    message = _message(request_, version)
    message.topics *= 2
    assert _refused(message, version) is ErrorCode.INVALID_REQUEST


def test_a_fetch_names_the_log_by_its_id() -> None:
    request = rpc.FetchRequest(PEER, 3, 7, 2, 0, 5)
    assert decode_request(_message(request, 13), 13)
    assert _refused(_message(request, 12), 12) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "count"), [(16, 0), (17, 1)])
def test_a_fetch_response_names_the_leaders_endpoint_from_version_17_on(version: int, count: int) -> None:
    message = encode_fetch(0, rpc.FetchResponse(LEADER), version, "CONTROLLER")
    assert len(message.node_endpoints) == count
    assert message.responses[0].partitions[0].aborted_transactions == []


def test_a_refused_fetch_has_one_error_if_it_is_not_for_this_quorum() -> None:
    partition = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topic = FetchRequest.Topic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    for code in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST):
        whole = fetch_metadata_log.refuse(request, code, "")
        assert (whole.error_code, whole.responses) == (code, [])
    each = fetch_metadata_log.refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
    assert len(each.responses) == 1
