"""The high watermark of the metadata log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.raft.progress import Progress
from barnabas.raft.voters import Voter, Voters


def _voters(count: int) -> Voters:
    return Voters(Voter(number) for number in range(count))


def test_an_older_record_is_committed_only_with_one_of_this_epoch() -> None:
    """Raft, figure 8."""
    progress = Progress(_voters(3), epoch_start=10)
    assert not progress.advance(0, 10)
    assert not progress.advance(1, 10)
    assert progress.high_watermark is None
    assert not progress.advance(0, 11)
    assert progress.advance(2, 11)
    assert progress.high_watermark == 11


def test_a_single_voter_commits_alone() -> None:
    progress = Progress(_voters(1), epoch_start=0)
    assert progress.advance(0, 1)
    assert progress.high_watermark == 1
    assert not progress.advance(0, 1)
    assert progress.end_of(0) == 1
    assert progress.end_of(7) is None


@given(st.integers(1, 7), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 50)), max_size=40))
def test_the_high_watermark_is_monotonic_and_on_a_majority(
    count: int, advances: list[tuple[int, int]]
) -> None:
    progress = Progress(_voters(count), epoch_start=5)
    last = 0
    for voter, end in advances:
        moved = progress.advance(voter, end)
        reached = progress.high_watermark
        if reached is None:
            assert not moved
            continue
        assert reached > last if moved else reached == last
        last = reached
        assert reached > 5
        holders = sum((progress.end_of(voter) or 0) >= reached for voter in range(count))
        assert holders >= count // 2 + 1
