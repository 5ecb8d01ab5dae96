"""The positions of a log: epochs, truncation, and the comparison with a follower's."""

from __future__ import annotations

import pytest

from barnabas.raft.log import VALID, Diverging, NeedsSnapshot, OffsetAndEpoch, RaftLog
from barnabas.raft.snapshot import FIRST_SNAPSHOT, SnapshotId


def _log() -> RaftLog:
    """Epoch 1 from 0, epoch 3 from 5, epoch 4 from 8; the end is 10."""
    return RaftLog(end_offset=10, epochs=[(1, 0), (3, 5), (4, 8)])


def test_an_empty_log() -> None:
    log = RaftLog()
    assert log.end == OffsetAndEpoch(0, 0)
    assert log.validate(0, 0) == VALID
    assert log.validate(3, 1) == Diverging(OffsetAndEpoch(0, 0))


def test_append_begins_an_epoch_once() -> None:
    log = RaftLog()
    log.append(2, 3)
    log.append(2, 5)
    log.append(7, 6)
    assert log.end == OffsetAndEpoch(6, 7)
    assert log.end_of_epoch(2) == OffsetAndEpoch(5, 2)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(0, (0, 0)), (1, (5, 1)), (2, (5, 1)), (3, (8, 3)), (4, (10, 4)), (9, (10, 4))],
)
def test_the_end_of_an_epoch(epoch: int, end: tuple[int, int]) -> None:
    assert _log().end_of_epoch(epoch) == OffsetAndEpoch(*end)


def test_truncation() -> None:
    log = _log()
    log.truncate(8)
    assert log.end == OffsetAndEpoch(8, 3)
    log.truncate(6)
    assert log.end == OffsetAndEpoch(6, 3)
    log.truncate(0)
    assert log.end == OffsetAndEpoch(0, 0)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (3, 1), (5, 1), (7, 3), (10, 4)])
def test_a_prefix_is_valid(offset: int, epoch: int) -> None:
    assert _log().validate(offset, epoch) == VALID


@pytest.mark.parametrize(
    ("offset", "epoch", "end"),
    [(6, 1, (5, 1)), (6, 2, (5, 1)), (11, 4, (10, 4)), (3, 9, (10, 4)), (2, 0, (0, 0))],
)
def test_the_end_that_both_may_share(offset: int, epoch: int, end: tuple[int, int]) -> None:
    assert _log().validate(offset, epoch) == Diverging(OffsetAndEpoch(*end))


def test_a_log_that_starts_with_a_snapshot() -> None:
    snapshot = SnapshotId(5, 2)
    log = RaftLog(start_offset=5, end_offset=9, epochs=[(3, 5)], snapshot=snapshot)
    for position in ((0, 0), (4, 1), (5, 1), (5, 3), (6, 1)):
        assert log.validate(*position) == NeedsSnapshot(snapshot)
    assert log.validate(5, 2) == VALID
    assert log.validate(7, 3) == VALID
    assert log.validate(7, 2) == Diverging(OffsetAndEpoch(5, 2))


def test_a_new_follower_takes_the_snapshot_even_if_the_log_is_there() -> None:
    log = RaftLog(end_offset=9, epochs=[(1, 0)], snapshot=SnapshotId(5, 1))
    assert log.validate(0, 0) == NeedsSnapshot(SnapshotId(5, 1))
    assert log.validate(1, 1) == VALID


def test_the_first_snapshot_is_none() -> None:
    log = RaftLog(end_offset=3, epochs=[(1, 0)], snapshot=FIRST_SNAPSHOT)
    assert log.validate(0, 0) == VALID


def test_advancing_the_start() -> None:
    log = _log()
    log.snapshot = SnapshotId(6, 3)
    log.advance_start(6)
    assert (log.start_offset, log.end_offset) == (6, 10)
    assert log.end_of_epoch(3) == OffsetAndEpoch(8, 3)
    assert log.validate(6, 3) == VALID
    log.advance_start(2)
    assert log.start_offset == 6


def test_reset() -> None:
    log = _log()
    log.reset(SnapshotId(20, 6))
    assert (log.start_offset, log.end) == (20, OffsetAndEpoch(20, 6))


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [((7, 3), 7), ((9, 3), 8), ((5, 2), 5), ((3, 1), 3), ((0, 0), 0), ((4, 0), 0), ((99, 4), 10)],
)
def test_where_a_follower_truncates(diverging: tuple[int, int], offset: int) -> None:
    assert _log().truncation_offset(OffsetAndEpoch(*diverging)) == offset


def test_up_to_date() -> None:
    # Raft, section 5.4.1
    end = OffsetAndEpoch(5, 2)
    assert end.is_up_to_date_with(end)
    assert OffsetAndEpoch(1, 3).is_up_to_date_with(end)
    assert not OffsetAndEpoch(9, 1).is_up_to_date_with(end)
    assert not OffsetAndEpoch(4, 2).is_up_to_date_with(end)
