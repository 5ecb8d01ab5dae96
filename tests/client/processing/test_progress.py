"""The offset before which all work is done, whatever the order in which it ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.processing.progress import PartitionProgress


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_position_is_behind_everything_that_is_done(gaps: list[int], random: object) -> None:
    """Offsets may have gaps: compaction and transaction markers leave them."""
    offsets = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    order = list(offsets)
    random.shuffle(order)  # type: ignore[attr-defined]
    progress = PartitionProgress()
    for offset in offsets:
        progress.begin(offset)
    done: set[int] = set()
    for offset in order:
        progress.end(offset)
        done.add(offset)
        left = [each for each in offsets if each not in done]
        finished = [each for each in offsets if each < min(left, default=10**9)]
        assert progress.position == (finished[-1] + 1 if finished else None)
        assert progress.in_progress == len(left)
