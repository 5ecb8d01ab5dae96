"""The voters of the metadata quorum."""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.protocol.records.control import VotersRecord
from barnabas.raft.voters import NO_VOTERS, Voter, VoterEndpoint, Voters

HERE, THERE = Uuid(b"h" * 16), Uuid(b"t" * 16)


def test_majorities() -> None:
    assert [Voters(Voter(number) for number in range(count)).majority for count in (1, 2, 3, 4, 5)] == [
        1,
        2,
        2,
        3,
        3,
    ]
    assert len(NO_VOTERS) == 0


def test_a_dynamic_voter_is_identified_by_node_and_directory() -> None:
    voters = Voters([Voter(1, HERE)])
    assert voters.is_only(1, HERE)
    assert not voters.is_only(1, THERE)
    assert not voters.is_only(2, HERE)
    assert Voters([Voter(1)]).is_only(1, THERE)
    assert not Voters([Voter(1), Voter(2)]).is_only(1, HERE)


def test_voters_round_trip_through_a_record() -> None:
    voters = Voters([Voter(2, THERE), Voter(1, HERE, (VoterEndpoint("CONTROLLER", "localhost", 9093),))])
    assert voters.ids == (1, 2)
    encoded = voters.to_record().encode(0)
    assert Voters.of_record(VotersRecord.decode(encoded, 0)) == voters
    changed = voters.with_voter(Voter(2, HERE))
    assert changed.get(2) == Voter(2, HERE)
    assert changed != voters
