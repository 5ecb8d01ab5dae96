"""Records for one batch, encoded one by one as the producer receives them.

A producer's send() ends in one call here, so a record costs no object of its own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from librt.strings import BytesWriter
from mypy_extensions import i64

from barnabas.batch.engine.encode import encode_record, size_of_bytes
from barnabas.batch.engine.varints import size_of_varint, subtract_wrapping

Headers = tuple[tuple[str, bytes | None], ...]


class Delivery:
    """A record accepted by the producer; awaiting it returns its metadata or raises its error."""

    def __init__(self, batch: Any, index: i64, timestamp_ms: i64) -> None:
        # The owner of the batch knows the result.
        self._batch = batch
        self._index: i64 = index
        self._timestamp_ms: i64 = timestamp_ms

    @property
    def index(self) -> i64:
        """The record's number in its batch."""
        return self._index

    @property
    def done(self) -> bool:
        return bool(self._batch.is_done)

    @property
    def error(self) -> Any:
        """Why the record was not written; None while it is pending or if it was written."""
        return self._batch.error_of(self._index)

    @property
    def metadata(self) -> Any:
        """The metadata of the written record; raises its error if it was not written."""
        return self._batch.metadata_of(self._index, self._timestamp_ms)

    def __await__(self) -> Generator[Any, None, Any]:
        waiting: Generator[Any, None, Any] = self._batch.awaited(self._index, self._timestamp_ms)
        return waiting

    def __repr__(self) -> str:
        state = "delivered" if self.done else "pending"
        return f"Delivery({self._batch.topic}-{self._batch.partition}, {state})"


class Gatherer:
    """The payload of a batch that is being filled.

    `append` returns the record's index in the batch, or -1 if the payload would become longer than `limit`;
    the first record always fits.  `take` returns a `Delivery` instead, or None.
    """

    def __init__(self, limit: i64, owner: Any = None) -> None:
        self._owner = owner
        self._out = BytesWriter()
        self._limit: i64 = limit
        self._count: i64 = 0
        self._base_timestamp: i64 = -1
        self._max_timestamp: i64 = -1

    @property
    def count(self) -> i64:
        return self._count

    @property
    def base_timestamp(self) -> i64:
        return self._base_timestamp

    @property
    def max_timestamp(self) -> i64:
        return self._max_timestamp

    @property
    def size(self) -> i64:
        return len(self._out)

    def payload(self) -> bytes:
        return self._out.getvalue()

    def append(self, timestamp: i64, key: bytes | None, value: bytes | None, headers: Headers) -> i64:
        index: i64 = self._count
        if index == 0:
            self._base_timestamp = timestamp
            self._max_timestamp = timestamp
        else:
            written: i64 = len(self._out)
            if written + largest_record(key, value, headers) > self._limit:
                return -1
            if timestamp > self._max_timestamp:
                self._max_timestamp = timestamp
        delta: i64 = subtract_wrapping(timestamp, self._base_timestamp)
        encode_record(self._out, index, delta, key, value, headers)
        self._count = index + 1
        return index

    def take(
        self, timestamp_ms: i64, key: bytes | None, value: bytes | None, headers: Headers
    ) -> Delivery | None:
        index: i64 = self.append(timestamp_ms, key, value, headers)
        if index < 0:
            return None
        return Delivery(self._owner, index, timestamp_ms)

    def append_values(self, timestamp: i64, values: list[bytes | None], start: i64) -> i64:
        """Append records without key and headers from `start` on, as many as fit; returns the first that did
        not."""
        end: i64 = len(values)
        position: i64 = start
        while position < end:
            if self.append(timestamp, None, values[position], ()) < 0:
                return position
            position += 1
        return position


def largest_record(key: bytes | None, value: bytes | None, headers: Headers) -> i64:
    """The maximum size of a record: its deltas are counted in their longest form."""
    size: i64 = 1 + 10 + 5 + 5 + size_of_bytes(key) + size_of_bytes(value)
    count: i64 = len(headers)
    size += size_of_varint(count)
    if count > 0:
        for name, content in headers:
            length: i64 = len(name.encode("utf-8"))
            size += size_of_varint(length) + length + size_of_bytes(content)
    return size
