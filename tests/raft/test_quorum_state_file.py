"""The `quorum-state` file, byte for byte."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.raft.quorum_state_file import (
    DamagedQuorumState,
    ElectionState,
    decode_quorum_state,
    encode_quorum_state,
)

DIRECTORY = Uuid.parse("ChDEvQFfTWOKBYVH37DLIg")
# golden/logs/kraft-4.1.0 and golden/logs/kraft-4.1.0-dynamic-quorum, text-files.txt
STATIC = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
DYNAMIC = (
    b'{"leaderId":103,"leaderEpoch":3,"votedId":103,"votedDirectoryId":"ChDEvQFfTWOKBYVH37DLIg",'
    b'"data_version":1}'
)


def test_the_format_matches_apache_kafka() -> None:
    # M-E1
    assert encode_quorum_state(ElectionState(1, 1), (1,), 0) == STATIC
    assert decode_quorum_state(STATIC) == ElectionState(1, 1)
    voted = ElectionState(3, 103, 103, DIRECTORY)
    assert encode_quorum_state(voted, (101, 102, 103), 1) == DYNAMIC
    assert decode_quorum_state(DYNAMIC) == voted


def test_a_vote_is_for_a_node_and_its_directory() -> None:
    vote = ElectionState(3, -1, 103, DIRECTORY)
    assert vote.voted_for(103, DIRECTORY)
    assert not vote.voted_for(103, Uuid(b"x" * 16))
    assert not vote.voted_for(101, DIRECTORY)
    assert ElectionState(3, -1, 103).voted_for(103, DIRECTORY)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"data_version":2,"leaderId":1,"leaderEpoch":1,"votedId":-1}',
        b'{"data_version":0,"leaderId":"1","leaderEpoch":1,"votedId":-1}',
        b'{"data_version":0,"leaderId":1,"leaderEpoch":true,"votedId":-1}',
        b'{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"?"}',
        b"\xff\xfe",
    ],
)
def test_invalid_content_is_rejected(content: bytes) -> None:
    with pytest.raises(DamagedQuorumState):
        decode_quorum_state(content)
