"""Records as a consumer returns them to its user: objects, created in the decoding loop."""

from __future__ import annotations

from typing import Generic

from mypy_extensions import i64

from barnabas.base.type_variables import K, V
from barnabas.batch.engine.decode import decode_headers
from barnabas.batch.engine.faults import (
    BAD_HEADERS,
    BAD_KEY,
    BAD_LENGTH,
    BAD_VALUE,
    BAD_VARINT,
    NO_FAULT,
    TRAILING_BYTES,
    WRONG_LENGTH,
)
from barnabas.batch.engine.varints import add_wrapping, read_varint, read_varlong


class ConsumerRecord(Generic[K, V]):
    """A consumed record: its position, its timestamp, and its contents.

    The key is None if the record has none.  A record without a value deletes its key from a compacted topic:
    read those as `bytes | None`.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        leader_epoch: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: K | None,
        value: V,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return (
            self.topic == other.topic
            and self.partition == other.partition
            and self.leader_epoch == other.leader_epoch
            and self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.timestamp_type == other.timestamp_type
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))


def decode_consumed(
    data: bytes,
    start: i64,
    end: i64,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: bool,
    first_offset: i64,
    topic: str,
    partition: int,
    leader_epoch: int,
    timestamp_type: int,
    out: list[ConsumerRecord[bytes, bytes | None]],
) -> tuple[int, int]:
    """Append the `count` records from `start` to `end` to `out`, except those below `first_offset`.

    Returns a fault and the index of its record.
    """
    position: i64 = start
    index: i64 = 0
    while index < count:
        length, body = read_varint(data, position, end)
        if body < 0:
            return BAD_VARINT, index
        if length < 1 or length > end - body:
            return BAD_LENGTH, index
        stop: i64 = body + length
        delta, position = read_varlong(data, body + 1, stop)
        if position < 0:
            return BAD_VARINT, index
        timestamp: i64 = base_timestamp if log_append_time else add_wrapping(base_timestamp, delta)
        offset_delta, position = read_varint(data, position, stop)
        if position < 0:
            return BAD_VARINT, index
        key_size, key_start = read_varint(data, position, stop)
        if key_start < 0:
            return BAD_VARINT, index
        if key_size > stop - key_start:
            return BAD_KEY, index
        key_end: i64 = key_start + key_size if key_size > 0 else key_start
        value_size, value_start = read_varint(data, key_end, stop)
        if value_start < 0:
            return BAD_VARINT, index
        if value_size > stop - value_start:
            return BAD_VALUE, index
        value_end: i64 = value_start + value_size if value_size > 0 else value_start
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if value_end < stop and data[value_end] == 0:
            position = value_end + 1
        else:
            headers, position = decode_headers(data, value_end, stop)
            if position < 0:
                return BAD_HEADERS, index
        if position != stop:
            return WRONG_LENGTH, index
        offset: i64 = add_wrapping(base_offset, offset_delta)
        if offset >= first_offset:
            out.append(
                ConsumerRecord(
                    topic,
                    partition,
                    leader_epoch,
                    offset,
                    timestamp,
                    timestamp_type,
                    None if key_size < 0 else data[key_start:key_end],
                    None if value_size < 0 else data[value_start:value_end],
                    headers,
                )
            )
        index += 1
    if position != end:
        return TRAILING_BYTES, count - 1
    return NO_FAULT, 0
