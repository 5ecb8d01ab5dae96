"""The controller's view of the running quorum: who takes part (KAFKA-20395)."""

from __future__ import annotations

from barnabas.broker.modes.kraft.quorum.live_quorum import LiveQuorum
from barnabas.raft.progress import OBSERVER_SESSION_NS
from barnabas.raft.voters import ReplicaKey, Voters
from tests.raft.leader_lab import SECOND_NS, LeaderLab, described, directory


class _Clock:
    def __init__(self, lab: LeaderLab) -> None:
        self._lab = lab

    def wall_ms(self) -> int:
        raise AssertionError("progress is measured with the monotonic clock")

    def monotonic_ns(self) -> int:
        return self._lab.now_ns


def _quorum(lab: LeaderLab) -> LiveQuorum:
    return LiveQuorum(lab.node, _Clock(lab))


def test_a_controller_takes_part_as_a_voter_or_while_it_fetches() -> None:
    lab = LeaderLab(kraft_version=1)
    quorum = _quorum(lab)
    assert [quorum.has_left(node_id) for node_id in (1, 2, 3)] == [False] * 3
    assert quorum.has_left(7)
    lab.fetch(ReplicaKey(7, directory(7)))
    assert not quorum.has_left(7)
    lab.now_ns += OBSERVER_SESSION_NS
    assert quorum.has_left(7)
    assert not quorum.has_left(2), "a voter must be removed first"


def test_a_voter_that_does_not_fetch_is_silent() -> None:
    lab = LeaderLab(kraft_version=1, voters=Voters(described(node_id) for node_id in (1, 2, 3, 4)))
    quorum = _quorum(lab)
    assert [quorum.is_silent(node_id) for node_id in (1, 2, 3, 4)] == [False, False, False, True]
    lab.commit(4)
    assert not quorum.is_silent(4)
    for _ in range(OBSERVER_SESSION_NS // SECOND_NS):
        assert not quorum.is_silent(4)
        lab.now_ns += SECOND_NS
        lab.commit(2, 3)
    assert [quorum.is_silent(node_id) for node_id in (1, 2, 3, 4)] == [False, False, False, True]


def test_the_upgrade_is_the_leaders_to_judge() -> None:
    quorum = _quorum(LeaderLab())
    assert (quorum.kraft_version, quorum.upgrade_error(0)) == (0, None)
    assert "not all of the voters support it" in (quorum.upgrade_error(1) or "")
