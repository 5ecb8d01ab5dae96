"""DescribeQuorum of a leader with other voters and observers; of a node that does not lead."""

from __future__ import annotations

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.broker.modes.kraft.describe_quorum import describe_quorum
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.raft.log import RaftLog
from barnabas.raft.node import RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.progress import OBSERVER_SESSION_NS
from barnabas.raft.quorum import LoadedQuorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import ReplicaKey, Voters
from barnabas.runtime.random import SeededRandom
from tests.raft.leader_lab import SECOND_NS, LeaderLab, described, directory

NOW_MS = 1_700_000_000_000
OBSERVER = ReplicaKey(7, directory(7))


class _Clock:
    """The wall clock is far ahead of the monotonic one."""

    def __init__(self, lab: LeaderLab) -> None:
        self._lab = lab

    def wall_ms(self) -> int:
        return NOW_MS + self._lab.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._lab.now_ns


def _describe(lab: LeaderLab, version: int = 2) -> DescribeQuorumResponse.PartitionData:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    clock = _Clock(lab)
    response = describe_quorum(lab.node, DescribeQuorumRequest(topics=[topic]), version, clock)
    assert response.encode(version)
    return response.topics[0].partitions[0]


def test_voters_and_observers_with_their_progress() -> None:
    # KIP-836, KIP-853
    lab = LeaderLab(kraft_version=1)
    end = lab.node.end_offset
    fetched_ms = NOW_MS + lab.now_ns // 1_000_000
    lab.now_ns += SECOND_NS
    lab.fetch(OBSERVER, 0)
    lab.fetch(ReplicaKey(-1), 0)
    described_ = _describe(lab)
    now_ms = fetched_ms + 1000
    assert (described_.leader_id, described_.leader_epoch) == (1, lab.node.epoch)
    assert described_.high_watermark == end
    shown = [
        (
            replica.replica_id,
            replica.replica_directory_id,
            replica.log_end_offset,
            replica.last_fetch_timestamp,
            replica.last_caught_up_timestamp,
        )
        for replica in (*described_.current_voters, *described_.observers)
    ]
    assert shown == [
        (1, directory(1), end, now_ms, now_ms),
        (2, directory(2), end, fetched_ms, fetched_ms),
        (3, directory(3), end, fetched_ms, fetched_ms),
        (7, directory(7), 0, now_ms, -1),
    ]


def test_an_observer_that_no_longer_fetches_is_forgotten() -> None:
    lab = LeaderLab(kraft_version=1)
    lab.fetch(OBSERVER)
    lab.now_ns += OBSERVER_SESSION_NS - 1
    assert [replica.replica_id for replica in _describe(lab).observers] == [7]
    lab.now_ns += 1
    assert _describe(lab).observers == []


def test_a_voter_that_never_fetched() -> None:
    lab = LeaderLab(kraft_version=1, voters=Voters(described(node_id) for node_id in (1, 2, 3, 4)))
    silent = _describe(lab).current_voters[3]
    assert (silent.log_end_offset, silent.last_fetch_timestamp, silent.last_caught_up_timestamp) == (
        -1,
        -1,
        -1,
    )


def test_static_voters_have_no_directories_and_older_versions_neither() -> None:
    static = _describe(LeaderLab()).current_voters
    assert {voter.replica_directory_id for voter in static} == {ZERO_UUID}
    older = _describe(LeaderLab(kraft_version=1), version=1).current_voters
    assert {voter.replica_directory_id for voter in older} == {ZERO_UUID}


def test_only_the_leader_knows() -> None:
    """Apache Kafka answers with an error of the partition, not of the whole request."""
    lab = LeaderLab()
    history = VoterHistory(Voters([described(1), described(2)]), 1)
    loaded = LoadedQuorum(ElectionState(), history, RaftLog(end_offset=0, epochs=[]))
    lab.node = RaftNode(described(1), loaded, QuorumOptions(), SeededRandom(1))
    refused = _describe(lab)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (refused.error_code, refused.error_message) == (code, ERRORS[code].text)
