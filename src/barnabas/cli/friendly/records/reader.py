"""Reading of records for consume and tail: from a place to a place, or on and on."""

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
    """Records of partitions, poll by poll (an empty list where nothing came): up to the ends, or for ever.

    A partition is at its end when the consumer stands there, not when the last record was seen: the last
    offsets of a log may hold markers of transactions, or have been compacted away.
    """
    left = sorted(where for where in starts if ends is None or starts[where] < ends[where])
    consumer.assign(left)
    # A consumer that reads on keeps its partitions, and those that were at their ends rest.
    consumer.resume(*left)
    for where in left:
        consumer.seek(where, starts[where])
    while left:
        records = consumer.poll(timeout_ms=POLL_MS)
        if ends is None:
            yield records
            continue
        yield [one for one in records if one.offset < ends[TopicPartition(one.topic, one.partition)]]
        done = [where for where in left if consumer.position(where) >= ends[where]]
        if done:
            consumer.pause(*done)
            left = [where for where in left if where not in done]


def read_as_member(
    consumer: Consumer, topics: list[str], count: int | None, *, is_endless: bool
) -> Iterator[list[ConsumerRecord]]:
    """Records that the group has not read yet, at most so many; what was taken is committed when the next are
    asked for."""
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
        fresh = [where for where in assigned if where not in ends]
        ends.update(consumer.end_offsets(fresh) if fresh else {})
        if all(consumer.position(where) >= ends[where] for where in assigned):
            return
