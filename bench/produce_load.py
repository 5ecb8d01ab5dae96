"""A producer with minimal cost: prepared requests over raw sockets, from one thread.

It keeps a fixed number of requests in flight on each connection, and proves that the broker did the work:
every response is checked, records are counted, and the last batches are read back.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

from fastcrc import crc32

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record
from barnabas.batch.view import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE, BatchView
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import ProduceRequest
from bench import topics
from bench.servers import Server
from bench.transactional_load import begin, commit
from tools.raw_broker import RawConnection

PRODUCE_VERSION = 11
INIT_PRODUCER_ID_VERSION = 4
PATIENCE_S = 60
# The maximum per round: unflushed data must not slow anything down.
MAX_ROUND_BYTES = 1_200_000_000
# Small requests are stored contiguously, so that one call sends many.
RING_BYTES = 128 << 10
RECEIVE_BYTES = 64 << 10
WORD_BYTES = 12
SEQUENCE_POSITION = 53
_SEQUENCE = struct.Struct(">i")
_CRC = struct.Struct(">I")
# Of a response: its size, correlation id, no tags, one topic, length of its name.
_BEFORE_NAME = 4 + 4 + 1 + 1 + 1
# One partition, its index; then the error code.
_BEFORE_ERROR = 1 + 4
# Error, base offset, append time, start offset, no record errors, no message, no tags; no tags of the topic;
# throttle time, no tags.
_FROM_ERROR = 2 + 8 + 8 + 8 + 1 + 1 + 1 + 1 + 4 + 1


@dataclass(frozen=True, slots=True)
class Load:
    """The records and requests to send."""

    record_bytes: int = 1024
    records: int = 15
    acks: int = 1
    codec: Codec = Codec.NONE
    idempotent: bool = False
    # One transaction over all partitions per connection.
    transactional: bool = False
    connections: int = 4
    in_flight: int = 5
    partitions: int = 6
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_numbered(self) -> bool:
        return self.idempotent or self.transactional


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a load."""

    requests: int
    records: int
    payload_bytes: int
    seconds: float
    cpu_seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.payload_bytes / 1e6 / self.seconds

    @property
    def cpu_seconds_per_gb(self) -> float:
        return self.cpu_seconds / (self.payload_bytes / 1e9)


@cache
def words() -> list[bytes]:
    letters = b'abcdefghijklmnopqrstuvwxyz0123456789{}":,'
    return [bytes(random.Random(number).choices(letters, k=WORD_BYTES)) for number in range(200)]


def text(size: int, seed: int) -> bytes:
    """As compressible as log lines."""
    chosen = random.Random(seed).choices(words(), k=size // WORD_BYTES + 1)
    return b"".join(chosen)[:size]


def client_batch(load: Load, producer_id: int = -1) -> bytearray:
    now_ms = time.time_ns() // 1_000_000
    rows = [Record(n, now_ms, None, text(load.record_bytes, n)) for n in range(load.records)]
    if producer_id < 0:
        return build(rows, codec=load.codec)
    return build(
        rows,
        codec=load.codec,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=load.transactional,
    )


def produce_frame(
    topic: str,
    partition: int,
    batch: bytes | bytearray,
    acks: int,
    correlation_id: int = 0,
    transactional_id: str | None = None,
) -> bytes:
    part = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
    )
    return write_request(request, PRODUCE_VERSION, correlation_id, "bench")


class Responses:
    """The responses of one connection: all of equal size unless a request is refused."""

    __slots__ = ("_buffer", "_error_at", "_filled", "_size")

    def __init__(self, topic: str) -> None:
        name_size = len(topic.encode())
        self._error_at = _BEFORE_NAME + name_size + _BEFORE_ERROR
        self._size = self._error_at + _FROM_ERROR
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._filled = 0

    def receive(self, connection: socket.socket) -> int:
        """Returns the number of complete responses; each is checked."""
        count = connection.recv_into(self._buffer[self._filled :])
        if not count:
            raise ConnectionError("the broker closed a connection")
        filled = self._filled + count
        whole = filled // self._size
        if not whole:
            self._filled = filled
            return 0
        end = whole * self._size
        self._check(end, whole)
        if filled > end:
            self._buffer[: filled - end] = bytes(self._buffer[end:filled])
        self._filled = filled - end
        return whole

    def _check(self, end: int, whole: int) -> None:
        buffer, step = self._buffer, self._size
        sizes = bytes(buffer[3:end:step])
        if sizes != bytes((step - 4 & 0xFF,)) * whole or any(buffer[self._error_at + 1 : end : step]):
            raise RuntimeError(f"a request was refused: {bytes(buffer[:end])!r}")


class Stream:
    """One connection: a ring of requests that cycles through the partitions."""

    def __init__(self, server: Server, topic: str, load: Load, number: int) -> None:
        self.load = load
        self.transactional_id = f"{topic}-{number}" if load.transactional else None
        self.producer_id = -1
        if self.transactional_id is not None:
            self.producer_id = begin(server, self.transactional_id, topic, load.partitions)
        elif load.idempotent:
            self.producer_id = new_producer_id(server)
        self.batch = client_batch(load, self.producer_id)
        order = [(number + index) % load.partitions for index in range(load.partitions)]
        frames = [
            produce_frame(topic, partition, self.batch, load.acks, transactional_id=self.transactional_id)
            for partition in order
        ]
        assert len({len(frame) for frame in frames}) == 1, "all requests have the same size"
        self.frame_size = len(frames[0])
        self.batch_at = frames[0].index(self.batch)
        turns = 1 if load.is_numbered else max(1, RING_BYTES // (self.frame_size * len(frames)))
        self._ring = memoryview(bytearray(b"".join(frames * turns)))
        self._slots = len(frames) * turns
        self._next = 0
        self._sequence = 0
        self._responses = Responses(topic)
        self.sent = 0
        self.answered = 0
        self.socket = socket.create_connection(server.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, count: int) -> None:
        """Sends the next `count` requests of the ring."""
        self.sent += count
        while count:
            first = self._next
            some = min(count, self._slots - first)
            if self.load.is_numbered:
                for slot in range(first, first + some):
                    self._number(slot)
            self.socket.sendall(self._ring[first * self.frame_size : (first + some) * self.frame_size])
            self._next = (first + some) % self._slots
            count -= some
            if self._next == 0:
                self._sequence += self.load.records

    def _number(self, slot: int) -> None:
        """Sets the next sequence number of the partition; it is covered by the CRC."""
        start = slot * self.frame_size + self.batch_at
        _SEQUENCE.pack_into(self._ring, start + SEQUENCE_POSITION, self._sequence)
        crc = crc32.iscsi(self._ring[start + ATTRIBUTES_POSITION : start + len(self.batch)])
        _CRC.pack_into(self._ring, start + CRC_POSITION, crc)

    def receive(self) -> int:
        whole = self._responses.receive(self.socket)
        self.answered += whole
        return whole


def produce(server: Server, topic: str, load: Load, seconds: float) -> Done:
    """Sends for `seconds`, and until the last response has arrived."""
    with ExitStack() as stack:
        streams = []
        for number in range(load.connections):
            stream = Stream(server, topic, load, number)
            stack.enter_context(stream.socket)
            streams.append(stream)
        cpu_before = server.cpu_seconds
        started = time.perf_counter()
        _run(streams, load, started + seconds)
        for stream in streams:
            if stream.transactional_id is not None:
                commit(server, stream.transactional_id, stream.producer_id)
        elapsed = time.perf_counter() - started
        cpu = server.cpu_seconds - cpu_before
    requests = sum(stream.answered for stream in streams)
    records = requests * load.records
    prove(server, topic, load, records, streams[0].batch)
    return Done(requests, records, records * load.record_bytes, elapsed, cpu)


def _run(streams: list[Stream], load: Load, until: float) -> None:
    left = MAX_ROUND_BYTES // streams[0].frame_size
    by_number = {stream.socket.fileno(): stream for stream in streams}
    poller = select.epoll()
    for number, stream in by_number.items():
        poller.register(number, select.EPOLLIN)
        stream.send(load.in_flight)
    in_flight = load.in_flight * len(streams)
    while in_flight:
        found = poller.poll(PATIENCE_S)
        if not found:
            raise TimeoutError(f"no response within {PATIENCE_S} s")
        is_over = time.perf_counter() >= until or left <= 0
        for number, _ in found:
            stream = by_number[number]
            responses = stream.receive()
            if is_over:
                in_flight -= responses
            elif responses:
                stream.send(responses)
                left -= responses
    poller.close()


def prove(server: Server, topic: str, load: Load, records: int, batch: bytearray) -> None:
    """Checks that the broker has all acknowledged records, and returns the last batch of each partition."""
    # The marker of a transaction follows its records, soon after the response to the commit.
    markers = load.connections if load.transactional else 0
    expected = records + markers * load.partitions
    until = time.monotonic() + (PATIENCE_S if markers else 0)
    while True:
        ends = topics.end_offsets(server, topic, load.partitions)
        held = sum(end or 0 for end in ends)
        if held == expected or time.monotonic() >= until:
            break
        time.sleep(0.01)
    assert held == expected, f"{expected} records were acknowledged, the broker has {held}"
    for partition, end in enumerate(ends):
        if end and end > markers:
            first = end - markers - load.records
            data = topics.records_at(server, topic, partition, first, 2 * len(batch))
            last = BatchView(data)
            assert last.crc_ok(), "the last batch is damaged"
            assert data[HEADER_SIZE : last.size] == batch[HEADER_SIZE:], (
                "the last batch differs from the sent one"
            )


def new_producer_id(server: Server) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    until = time.monotonic() + PATIENCE_S
    with RawConnection(server.address, PATIENCE_S) as connection:
        while True:
            response = connection.ask(request, INIT_PRODUCER_ID_VERSION, InitProducerIdResponse)
            if not response.error_code:
                return response.producer_id
            # Apache Kafka returns this while it fetches the first ids.
            assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, response
            assert time.monotonic() < until, response
            time.sleep(0.05)
