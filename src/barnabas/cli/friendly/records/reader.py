"""Reads records for consume and tail: between two positions, or endlessly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.client.model import TopicPartition

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.client.sync import Consumer

POLL_MS = 500


def read(
    consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None
) -> Iterator[list[ConsumerRecord]]:
    """Records of partitions, poll by poll (an empty list for an empty poll): up to the ends, or for ever.

    A partition is finished when the consumer's position reaches the end, not when the last record was seen:
    the last offsets of a log may hold transaction markers, or have been compacted away.
    """
    left = sorted(partition for partition in starts if ends is None or starts[partition] < ends[partition])
    consumer.assign(left)
    # A consumer that is reused keeps its partitions, and those that were finished are paused.
    consumer.resume(*left)
    for partition in left:
        consumer.seek(partition, starts[partition])
    while left:
        records = consumer.poll(timeout_ms=POLL_MS)
        if ends is None:
            yield records
            continue
        yield [
            record
            for record in records
            if record.offset < ends[TopicPartition(record.topic, record.partition)]
        ]
        done = [partition for partition in left if consumer.position(partition) >= ends[partition]]
        if done:
            consumer.pause(*done)
            left = [partition for partition in left if partition not in done]


def read_as_member(
    consumer: Consumer, topics: list[str], count: int | None, *, is_endless: bool
) -> Iterator[list[ConsumerRecord]]:
    """At most `count` records that the group has not read yet; returned records are committed before the next
    poll."""
    consumer.subscribe(topics)
    ends: dict[TopicPartition, int] = {}
    taken = 0
    while count is None or taken < count:
        records = consumer.poll(timeout_ms=POLL_MS, max_records=None if count is None else count - taken)
        yield records
        taken += len(records)
        if records:
            consumer.commit()
        assigned = consumer.assignment()
        if is_endless or not assigned:
            continue
        fresh = [partition for partition in assigned if partition not in ends]
        ends.update(consumer.end_offsets(fresh) if fresh else {})
        if all(consumer.position(partition) >= ends[partition] for partition in assigned):
            return
