"""Ranges of offsets: divided into tasks without a gap, and limited in proportion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client import TopicPartition
from barnabas.spark.source.ranges import MOST_TASKS, SMALL, OffsetRange, cut, packed, share_limit


def ranges(*sizes: int, start: int = 100) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition("t", number), start, start + size, from_earliest=True)
        for number, size in enumerate(sizes)
    ]


def sizes(tasks: list[OffsetRange]) -> list[list[int]]:
    """The sizes of the tasks of each partition."""
    found: dict[TopicPartition, list[int]] = {}
    for task in tasks:
        found.setdefault(task.topic_partition, []).append(task.size)
    return list(found.values())


@pytest.mark.parametrize(
    ("given_sizes", "min_partitions", "max_records", "expected"),
    [
        ((10, 0, 5), None, None, [[10], [5]]),
        ((10, 5), 2, None, [[10], [5]]),
        ((10, 5), 3, None, [[5, 5], [5]]),
        ((10,), 3, None, [[3, 3, 4]]),
        ((10,), 10, None, [[1] * 10]),
        ((2,), 5, None, [[1, 1]]),
        ((100, 1, 1), 6, None, [[25, 25, 25, 25], [1], [1]]),
        ((100, 100, 1), 5, None, [[50, 50], [50, 50], [1]]),
        ((10, 5), None, 4, [[3, 3, 4], [2, 3]]),
        ((10, 5), None, 5, [[5, 5], [5]]),
        ((10, 5), None, 100, [[10], [5]]),
        ((10, 10), 3, 10, [[5, 5], [5, 5]]),
        ((), 5, 5, []),
    ],
)
def test_tasks(
    given_sizes: tuple[int, ...],
    min_partitions: int | None,
    max_records: int | None,
    expected: list[list[int]],
) -> None:
    assert sizes(cut(ranges(*given_sizes), min_partitions, max_records)) == expected


@given(
    st.lists(st.integers(0, 50), max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 60),
)
def test_every_offset_is_read_by_one_task(
    given_sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = ranges(*given_sizes)
    tasks = cut(reversed(whole), min_partitions, max_records)
    read = [(task.topic_partition, offset) for task in tasks for offset in range(task.start, task.end)]
    assert read == [
        (each.topic_partition, offset) for each in whole for offset in range(each.start, each.end)
    ]
    assert all(task.size > 0 for task in tasks)
    if max_records is not None:
        assert all(task.size <= max_records for task in tasks)
    # Only the first task of a partition may start where the partition does now.
    assert [task.from_earliest for task in tasks] == [task.start == 100 for task in tasks]


@pytest.mark.parametrize(
    ("limit", "ends", "expected"),
    [
        (10, (100, 100), (5, 5)),
        (30, (100, 200), (10, 20)),
        (10, (1000, 1), (9, 1)),
        (1, (5, 5), (1, 1)),
        (500, (10, 20), (10, 20)),
        (10, (0, 20), (0, 10)),
        (10, (0, 0), (0, 0)),
    ],
)
def test_a_limit_is_shared_in_proportion(
    limit: int, ends: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    partitions = [TopicPartition("t", number) for number in range(len(ends))]
    start = dict.fromkeys(partitions, 0)
    shared = share_limit(limit, start, dict(zip(partitions, ends, strict=True)))
    assert tuple(shared[partition] for partition in partitions) == expected


def test_a_partition_without_a_known_beginning_is_read_to_its_end() -> None:
    known, new = TopicPartition("t", 0), TopicPartition("t", 1)
    assert share_limit(4, {known: 10}, {known: 20, new: 7}) == {known: 14, new: 7}


def test_up_to_a_number_each_range_is_a_task_of_its_own() -> None:
    few = ranges(*[1] * MOST_TASKS)
    assert packed(few) == [(each,) for each in few]


@given(st.lists(st.integers(1, 2 * SMALL), min_size=MOST_TASKS + 1, max_size=400))
def test_of_many_ranges_the_small_ones_share_tasks(of_sizes: list[int]) -> None:
    many = ranges(*of_sizes)
    tasks = packed(many)
    assert sorted(each.topic_partition for task in tasks for each in task) == [
        each.topic_partition for each in many
    ]
    large = sum(each.size > SMALL for each in many)
    assert len(tasks) - large <= MOST_TASKS + 1
    assert all(len(task) == 1 for task in tasks if task[0].size > SMALL)
