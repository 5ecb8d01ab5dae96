"""A consumer with minimal cost: it reads a topic repeatedly, and hashes the data."""

from __future__ import annotations

import socket
import struct
import time

from fastcrc import crc32

from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.fetch import FetchResponse
from bench import topics
from bench.produce_load import Load, client_batch, produce_frame
from bench.servers import Server
from tools.raw_broker import RawConnection

PATIENCE_S = 60
FETCH = api(1)
PARTITION_BYTES = 1 << 20
MAX_RESPONSE_BYTES = 64 << 20
_SIZE = struct.Struct(">i")


class Reader:
    """Reads a topic of equal batches from start to end, repeatedly."""

    def __init__(self, server: Server, topic: str, batch_bytes: int, load: Load, batches: int) -> None:
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._load = load
        self._end = batches * load.records
        self._offsets = dict.fromkeys(range(load.partitions), 0)
        self._hashes = dict.fromkeys(range(load.partitions), 0)
        self._expected: int | None = None
        self._view = memoryview(bytearray(MAX_RESPONSE_BYTES))
        self.passes = 0
        self.bytes_read = 0
        self.socket = socket.create_connection(server.address)
        # The kernel waits for the complete response, so there is no timeout in Python.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE_S, 0))

    def read(self) -> None:
        """One fetch over all partitions."""
        request = topics.fetch_request(self._topic, self._offsets, partition_bytes=PARTITION_BYTES)
        self.socket.sendall(write_request(request, topics.FETCH_VERSION, 0, "bench"))
        self._receive(_SIZE.size)
        size: int = _SIZE.unpack_from(self._view)[0]
        assert size <= MAX_RESPONSE_BYTES, size
        self._receive(size)
        self.bytes_read += size
        _, response = read_response(self._view[:size], FETCH, topics.FETCH_VERSION)
        assert isinstance(response, FetchResponse)
        for part in response.responses[0].partitions:
            assert not part.error_code, part.error_code
            assert part.records is not None
            self._take(part.partition_index, memoryview(part.records))  # type: ignore[arg-type]  # bytes

    def _receive(self, size: int) -> None:
        got = self.socket.recv_into(self._view, size, socket.MSG_WAITALL)
        if got != size:
            raise ConnectionError(f"the broker closed the connection, or sent {got} of {size} bytes")

    def _take(self, partition: int, records: memoryview) -> None:
        complete = len(records) // self._batch_bytes
        data = records[: complete * self._batch_bytes]
        self._hashes[partition] = crc32.iscsi(data, self._hashes[partition])
        self._offsets[partition] += complete * self._load.records
        if self._offsets[partition] == self._end:
            self._check_pass(self._hashes[partition])
            self._offsets[partition] = self._hashes[partition] = 0

    def _check_pass(self, data_hash: int) -> None:
        """All partitions contain the same bytes; the first pass was checked batch by batch."""
        if self._expected is None:
            self._expected = data_hash
        assert data_hash == self._expected, "the fetched data differs from the written data"
        self.passes += 1


def fill(server: Server, topic: str, load: Load, batches: int) -> int:
    """Writes equal batches to each partition, and checks each; returns the size of a batch."""
    batch = client_batch(load)
    # No more responses than the socket buffers while requests are still being sent.
    at_once = max(1, min(256, (8 << 20) // len(batch)))
    with RawConnection(server.address, PATIENCE_S) as connection:
        for partition in range(load.partitions):
            frame = produce_frame(topic, partition, batch, 1)
            left = batches
            while left:
                count = min(left, at_once)
                connection.send(frame * count)
                for _ in range(count):
                    assert connection.frame() is not None
                left -= count
    crc = topics.fingerprints(memoryview(batch))
    for partition in range(load.partitions):
        offset = seen = 0
        while offset < batches * load.records:
            fingerprints = topics.fingerprints(topics.records_at(server, topic, partition, offset, 8 << 20))
            assert set(fingerprints) == set(crc), "the data read differs from the data written"
            seen += len(fingerprints)
            offset = seen * load.records
    return len(batch)


def fetch(reader: Reader, seconds: float) -> float:
    """MB/s over at least `seconds`, until the end of a response."""
    before = reader.bytes_read
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        reader.read()
    return (reader.bytes_read - before) / 1e6 / (time.perf_counter() - started)
