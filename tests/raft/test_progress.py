"""The high watermark of the metadata log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import Uuid
from barnabas.raft.progress import OBSERVER_SESSION_NS, Progress
from barnabas.raft.voters import ReplicaKey, Voter, Voters

ME = ReplicaKey(0)


def _voters(count: int) -> Voters:
    return Voters(Voter(number) for number in range(count))


def _advance(progress: Progress, voter: int, end_offset: int) -> bool:
    if voter == ME.id:
        return progress.own_end(end_offset)
    return progress.fetched(ReplicaKey(voter), end_offset, 1_000, 0)


def _end_of(progress: Progress, voter: int) -> int:
    state = progress.state_of(ReplicaKey(voter))
    return 0 if state is None or state.end_offset is None else state.end_offset


def test_an_older_record_is_committed_only_with_one_of_this_epoch() -> None:
    """Raft, figure 8."""
    # M-C6
    progress = Progress(ME, _voters(3), epoch_start=10)
    assert not progress.own_end(10)
    assert not _advance(progress, 1, 10)
    assert progress.high_watermark is None
    assert not progress.own_end(11)
    assert _advance(progress, 2, 11)
    assert progress.high_watermark == 11


def test_a_single_voter_commits_alone() -> None:
    progress = Progress(ME, _voters(1), epoch_start=0)
    assert progress.own_end(1)
    assert progress.high_watermark == 1
    assert not progress.own_end(1)


def test_the_high_watermark_never_falls_when_voters_change() -> None:
    """cluster.md 19 (KAFKA-16530): a new voter without records makes the majority's end smaller."""
    progress = Progress(ME, _voters(2), epoch_start=0)
    progress.own_end(9)
    _advance(progress, 1, 8)
    assert progress.high_watermark == 8
    assert not progress.change_voters(_voters(4))
    assert progress.high_watermark == 8
    _advance(progress, 2, 9)
    assert progress.high_watermark == 8, "three of four voters must have it now"
    _advance(progress, 1, 9)
    assert progress.high_watermark == 9


def test_a_leader_that_is_no_voter_does_not_count() -> None:
    progress = Progress(ME, _voters(3), epoch_start=0)
    progress.change_voters(Voters([Voter(1), Voter(2)]))
    progress.own_end(5)
    _advance(progress, 1, 5)
    assert progress.high_watermark is None
    _advance(progress, 2, 4)
    assert progress.high_watermark == 4


def test_a_voter_with_another_directory_is_another_replica() -> None:
    """cluster.md 20 (KIP-853): a voter that lost its disk does not count until it is added again."""
    old, new = Uuid(b"o" * 16), Uuid(b"n" * 16)
    progress = Progress(ME, Voters([Voter(0), Voter(1, old)]), epoch_start=0)
    progress.own_end(5)
    progress.fetched(ReplicaKey(1, new), 5, 5, 7)
    assert progress.high_watermark is None
    assert progress.observers(7)[0][0] == ReplicaKey(1, new)
    progress.fetched(ReplicaKey(1, old), 5, 5, 8)
    assert progress.high_watermark == 5


def test_a_silent_observer_is_forgotten() -> None:
    progress = Progress(ME, _voters(1), epoch_start=0)
    progress.fetched(ReplicaKey(7), 3, 5, 10)
    assert [key.id for key, _ in progress.observers(10 + OBSERVER_SESSION_NS - 1)] == [7]
    assert progress.observers(10 + OBSERVER_SESSION_NS) == []


def test_a_replica_is_caught_up_when_it_had_the_end_of_its_last_fetch() -> None:
    progress = Progress(ME, _voters(2), epoch_start=0)
    voter = ReplicaKey(1)
    progress.fetched(voter, 3, 5, 100)
    state = progress.state_of(voter)
    assert state is not None
    assert state.last_caught_up_ns is None
    progress.fetched(voter, 5, 9, 200)
    assert state.last_caught_up_ns == 100, "it had reached the end of that time"
    progress.fetched(voter, 9, 9, 300)
    assert state.last_caught_up_ns == 300


def test_the_longest_logs_are_the_best_successors() -> None:
    progress = Progress(ME, _voters(4), epoch_start=0)
    _advance(progress, 1, 3)
    _advance(progress, 3, 8)
    assert [key.id for key in progress.voters_by_end_offset()] == [3, 1, 2]


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 50)), max_size=40))
def test_the_high_watermark_is_monotonic_and_was_on_a_majority(
    count: int, advances: list[tuple[int, int]]
) -> None:
    progress = Progress(ME, _voters(count), epoch_start=5)
    last = 0
    for voter, end in advances:
        moved = _advance(progress, voter, end)
        reached = progress.high_watermark
        if reached is None:
            assert not moved
            continue
        assert reached > last if moved else reached == last
        last = reached
        assert reached > 5
        if moved:
            holders = sum(_end_of(progress, number) >= reached for number in range(count))
            assert holders >= count // 2 + 1


def test_fetches_of_ever_new_replicas_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch may name any replica id; the one that has been silent the longest is forgotten."""
    monkeypatch.setattr("barnabas.raft.progress.MAX_OBSERVERS", 3)
    progress = Progress(ME, _voters(2), epoch_start=0)
    progress.own_end(5)
    for now_ns, replica_id in enumerate([7, 8, 9, 7, 10, 11]):
        progress.fetched(ReplicaKey(replica_id), 3, 5, now_ns)
    assert [key.id for key, _ in progress.observers(6)] == [7, 10, 11]
    assert progress.state_of(ReplicaKey(8)) is None
    _advance(progress, 1, 4)
    assert progress.high_watermark == 4, "voters are never forgotten"


def test_an_observer_that_becomes_a_voter_keeps_its_state() -> None:
    progress = Progress(ME, _voters(1), epoch_start=0)
    progress.own_end(5)
    progress.fetched(ReplicaKey(1), 4, 5, 10)
    progress.fetched(ReplicaKey(2), 3, 5, 11)
    progress.change_voters(_voters(2))
    assert [key.id for key, _ in progress.observers(12)] == [2]
    assert _end_of(progress, 1) == 4
    progress.change_voters(_voters(1))
    assert sorted(key.id for key, _ in progress.observers(12)) == [1, 2]
