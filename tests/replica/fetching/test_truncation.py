"""Where a follower truncates: by leader epochs."""

from __future__ import annotations

import pytest

from barnabas.replica.fetching.truncation import TruncationPoint, truncation_point
from barnabas.storage.log.log import Log
from tests.storage.logs import open_log, write


def log_of(*epochs: tuple[int, int]) -> Log:
    """A log with this many records in each epoch."""
    log = open_log()
    for epoch, records in epochs:
        write(log, *([1] * records), epoch=epoch)
    return log


@pytest.mark.parametrize(
    ("own", "leader", "expected"),
    [
        # The follower has more of the epoch than the leader.
        ([(0, 10), (1, 5)], (1, 12), TruncationPoint(12, is_final=True)),
        # The leader has all of the last common epoch, the follower less of it, then another epoch.
        ([(0, 10), (2, 5)], (0, 14), TruncationPoint(10, is_final=True)),
        ([(0, 10), (2, 5)], (0, 7), TruncationPoint(7, is_final=True)),
        # KIP-279: an epoch that only the leader has; the follower asks again with its next lower one.
        ([(0, 10), (3, 5)], (1, 14), TruncationPoint(10, is_final=False)),
        ([(0, 4), (2, 4), (5, 4)], (3, 6), TruncationPoint(8, is_final=False)),
        # All epochs of the follower are later: everything before them was deleted here.
        ([(4, 5), (5, 5)], (2, 0), TruncationPoint(0, is_final=True)),
        # An epoch beyond all of the follower's has no end here.
        ([(4, 5)], (6, 3), TruncationPoint(3, is_final=True)),
        ([(4, 5)], (6, 9), TruncationPoint(5, is_final=True)),
    ],
)
def test_the_point_at_which_two_logs_part(
    own: list[tuple[int, int]], leader: tuple[int, int], expected: TruncationPoint
) -> None:
    # M-D5
    assert truncation_point(log_of(*own), *leader) == expected
