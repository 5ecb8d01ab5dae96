"""What a micro-batch reads, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client import TopicPartition
from barnabas.client.errors.base import error_for
from barnabas.spark.given_options import OptionError
from barnabas.spark.source.loss import DataLossError, LossReport
from barnabas.spark.source.offset_reader import OffsetReader
from barnabas.spark.source.options import stream_options
from barnabas.spark.source.planning import stream_ranges
from tests.spark.topics import options_of

A, B, C = (TopicPartition("t", number) for number in range(3))


class Known:
    """A reader that knows the beginning of the partitions that exist."""

    def __init__(self, beginnings: Mapping[TopicPartition, int]) -> None:
        self._beginnings = beginnings

    def partitions(self) -> set[TopicPartition]:
        return set(self._beginnings)

    def earliest(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._beginnings[partition] for partition in partitions}


def ranges(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    *,
    fail: bool,
) -> list[tuple[TopicPartition, int, int]]:
    reader = cast("OffsetReader", Known(beginnings))
    found = stream_ranges(start, end, reader, LossReport(fail))
    return [(one.topic_partition, one.start, one.end) for one in found]


def test_known_partitions_continue_and_new_ones_are_read_from_their_beginning() -> None:
    found = ranges({A: 3, C: 5}, {A: 7, B: 2, C: 5}, {A: 0, B: 0, C: 0}, fail=True)
    assert found == [(A, 3, 7), (B, 0, 2), (C, 5, 5)]


@pytest.mark.parametrize(
    ("start", "end", "beginnings", "lost", "expected"),
    [
        (
            {C: 1},
            {A: 2, B: 4, C: 5},
            {B: 0, C: 0},
            "t-0 can no longer be found",
            [(B, 0, 4), (C, 1, 5)],
        ),
        ({}, {A: 9}, {A: 4}, "the new partition t-0 begins at offset 4, not at 0", [(A, 4, 9)]),
        ({A: 1, B: 1}, {B: 2}, {B: 0}, "t-0 were deleted", [(B, 1, 2)]),
        (
            {A: 5, B: 1},
            {A: 4, B: 2},
            {A: 0, B: 0},
            "the end of t-0 went back from offset 5 to 4",
            [(B, 1, 2)],
        ),
    ],
)
def test_what_is_lost_fails_the_query_or_is_left_out_alone(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    beginnings: dict[TopicPartition, int],
    lost: str,
    expected: list[tuple[TopicPartition, int, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLossError, match=lost):
        ranges(start, end, beginnings, fail=True)
    assert ranges(start, end, beginnings, fail=False) == expected
    (record,) = caplog.records
    assert lost in record.getMessage()


@pytest.mark.parametrize(("ends", "requests"), [([9], 1), ([3, 4, 9], 3), ([3, 3, 3, 9], 3)])
def test_an_end_before_a_known_offset_is_requested_again_but_not_forever(
    ends: list[int], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    async def listed(*_: object) -> dict[TopicPartition, int]:
        nonlocal asked
        asked += 1
        return {A: ends[asked - 1]}

    reader = OffsetReader(stream_options(options_of("nowhere:1", "t", fetchOffset__retryIntervalMs="0")))
    monkeypatch.setattr(reader, "_list", listed)
    monkeypatch.setattr(reader, "_wait", lambda query: asyncio.run(cast("Any", query)(None)))
    assert reader.latest([A], {A: 5}) == {A: ends[requests - 1]}
    assert asked == requests


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, OptionError),
        (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OptionError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ],
)
def test_a_commit_that_fails_is_reported_or_repeated_with_the_next(
    code: ErrorCode,
    expected: type[Exception] | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: object) -> None:
        raise error_for(code)

    reader = OffsetReader(stream_options(options_of("nowhere:1", "t", groupId="g")))
    monkeypatch.setattr(reader, "_wait", fail)
    if expected is not None:
        with pytest.raises(expected):
            reader.commit({A: 5})
        return
    reader.commit({A: 5})
    assert "the offsets of group g were not committed" in caplog.text


def test_nothing_is_committed_without_a_group_or_without_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise AssertionError

    for options, offsets in (({}, {A: 5}), ({"groupId": "g"}, {})):
        reader = OffsetReader(stream_options(options_of("nowhere:1", "t", **options)))
        monkeypatch.setattr(reader, "_wait", fail)
        reader.commit(offsets)
