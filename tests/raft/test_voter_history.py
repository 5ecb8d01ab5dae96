"""The voters by offset: effective when written, undone by a truncation (KIP-853)."""

from __future__ import annotations

from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from barnabas.raft.voter_history import NOT_IN_LOG, VoterHistory
from tests.raft.harness import voter, voters


def _history() -> VoterHistory:
    history = VoterHistory(voters(1, 2, 3), 0)
    history.append(0, LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[]))
    history.append(1, KRaftVersionRecord(version=0, kraft_version=1))
    history.append(2, voters(1, 2).to_record())
    history.append(3, None)
    history.append(5, voters(1, 2, 4).to_record())
    return history


def test_voters_are_effective_when_they_are_written() -> None:
    history = _history()
    assert history.voters == voters(1, 2, 4)
    assert (history.voters_offset, history.kraft_version) == (5, 1)
    assert VoterHistory(voters(1), 0).voters_offset == NOT_IN_LOG


def test_the_voters_at_an_offset() -> None:
    history = _history()
    assert history.voters_at(1) == voters(1, 2, 3)
    assert history.voters_at(2) == history.voters_at(4) == voters(1, 2)
    assert history.voters_at(9) == voters(1, 2, 4)
    assert [history.kraft_version_at(offset) for offset in (0, 1, 9)] == [0, 1, 1]


def test_a_truncation_returns_to_the_voters_before() -> None:
    history = _history()
    history.truncate(6)
    assert history.voters == voters(1, 2, 4)
    history.truncate(5)
    assert history.voters == voters(1, 2)
    history.truncate(0)
    assert (history.voters, history.kraft_version) == (voters(1, 2, 3), 0)


def test_a_snapshot_needs_the_last_voters_before_it_only() -> None:
    history = _history()
    history.forget_before(4)
    assert history.voters_at(3) == voters(1, 2)
    assert history.voters_at(0) == voters(1, 2)
    history.truncate(0)
    assert history.voters == voters(1, 2)
    history.forget_before(0)
    assert history.voters == voters(1, 2)


def test_who_may_be_a_voter_again() -> None:
    history = _history()
    three, four = voter(3), voter(4)
    assert history.may_be_voter(3, three.directory_id, 0)
    # Its removal at offset 2 is committed.
    assert not history.may_be_voter(3, three.directory_id, 3)
    assert history.may_be_voter(4, four.directory_id, 9)
    assert not history.may_be_voter(4, voter(4, disk=1).directory_id, 0)
