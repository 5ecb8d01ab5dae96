"""Records for one batch, encoded one by one as a producer gets them.

A producer's send() comes down to one call here, so a record costs no object of its own.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from barnabas.batch.engine.encode import encode_record, size_of_bytes
from barnabas.batch.engine.varints import size_of_varint, subtract_wrapping

Headers = tuple[tuple[str, bytes | None], ...]


class Gatherer:
    """The payload of a batch that is being filled.

    `append` gives the record's number in the batch, or -1 if it would make the payload longer than `limit`;
    the first record always fits.
    """

    def __init__(self, limit: i64) -> None:
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

    def append_values(self, timestamp: i64, values: list[bytes | None], start: i64) -> i64:
        """Records without key and headers, from `start` on, as many as fit; where to go on."""
        end: i64 = len(values)
        position: i64 = start
        while position < end:
            if self.append(timestamp, None, values[position], ()) < 0:
                return position
            position += 1
        return position


def largest_record(key: bytes | None, value: bytes | None, headers: Headers) -> i64:
    """What a record takes at most: its deltas are counted with their longest forms."""
    size: i64 = 1 + 10 + 5 + 5 + size_of_bytes(key) + size_of_bytes(value)
    count: i64 = len(headers)
    size += size_of_varint(count)
    if count > 0:
        for name, content in headers:
            length: i64 = len(name.encode("utf-8"))
            size += size_of_varint(length) + length + size_of_bytes(content)
    return size
