"""Latency from producer to consumer: 1,000 records per second, two processes, one clock."""

from __future__ import annotations

import multiprocessing
import struct
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection

from fastcrc import crc32

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import ATTRIBUTES_POSITION, CRC_POSITION
from barnabas.protocol.frame import write_request
from bench import topics
from bench.apache import APACHE
from bench.paced import SmallProducer, percentile, settle, wait_until
from bench.produce_load import produce_frame
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

PER_SECOND = 1000
SECONDS = 4
RECORD_BYTES = 100
PATIENCE_S = 30
_TIME = struct.Struct(">q")
_CRC = struct.Struct(">I")
_MARK = b"sent-at:"
_MARK_OFFSET = 0x0123_4567_89AB_CDEF


class Consumer:
    """Fetches with one prepared request; only its offset changes."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        request = topics.fetch_request(topic, {0: _MARK_OFFSET}, partition_bytes=1 << 20)
        self._frame = bytearray(write_request(request, topics.FETCH_VERSION, 0, "bench"))
        self._offset_at = self._frame.index(_TIME.pack(_MARK_OFFSET))
        self._connection = RawConnection(address)

    def fetch(self, offset: int) -> bytes:
        _TIME.pack_into(self._frame, self._offset_at, offset)
        self._connection.send(bytes(self._frame))
        response = self._connection.frame()
        assert response is not None, "the broker closed the connection"
        return response


def consume(address: tuple[str, int], topic: str, count: int, results: Connection) -> None:
    """The latency of each record in milliseconds."""
    latencies_ms = []
    consumer = Consumer(address, topic)
    results.send([])
    offset = 0
    while offset < count:
        response = consumer.fetch(offset)
        now_ns = time.monotonic_ns()
        at = response.find(_MARK)
        while at >= 0:
            latencies_ms.append((now_ns - _TIME.unpack_from(response, at + len(_MARK))[0]) / 1e6)
            offset += 1
            at = response.find(_MARK, at + len(_MARK))
    results.send(sorted(latencies_ms))


class Messages:
    """A request with one record, whose time is updated for each send."""

    def __init__(self, topic: str) -> None:
        value = _MARK + _TIME.pack(0) + bytes(RECORD_BYTES - len(_MARK) - _TIME.size)
        batch = build([Record(0, time.time_ns() // 1_000_000, None, value)])
        self.frame = bytearray(produce_frame(topic, 0, batch, acks=-1))
        self._batch = memoryview(self.frame)[self.frame.index(batch) :][: len(batch)]
        self._time_at = bytes(self._batch).index(_MARK) + len(_MARK)

    def stamp(self) -> None:
        _TIME.pack_into(self._batch, self._time_at, time.monotonic_ns())
        _CRC.pack_into(self._batch, CRC_POSITION, crc32.iscsi(self._batch[ATTRIBUTES_POSITION:]))


def run(server: Server) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    settle()
    with topics.topic(server, 1) as topic:
        results, remote = context.Pipe(duplex=False)
        count = PER_SECOND * SECONDS
        consumer = context.Process(target=consume, args=(server.address, topic, count, remote))
        consumer.start()
        remote.close()
        results.recv()
        messages = Messages(topic)
        producer = SmallProducer(server, topic)
        with producer.socket:
            due = time.perf_counter() + 0.1
            for _ in range(count):
                wait_until(due)
                due += 1 / PER_SECOND
                messages.stamp()
                producer.ask(messages.frame)
        assert results.poll(PATIENCE_S), "not all records arrived"
        latencies_ms: list[float] = results.recv()
        consumer.join()
    assert len(latencies_ms) == count, f"{count} records were sent, {len(latencies_ms)} arrived"
    return {"p50": percentile(latencies_ms, 0.5), "p99": percentile(latencies_ms, 0.99)}


# Shown if a goal is missed.
WHY = (
    "A record passes three processes on two cores, each of which sleeps until the one before has written: "
    "the waking of these, by the kernel, is most of it for both brokers. Ours takes some 30 µs for the "
    "produce and as much for the fetch that waits, in one tick of one loop."
)
ROW = partial(row, unit="ms", higher_is_better=False, floor=1, against=APACHE, why=WHY)


@ROW("end-to-end-p50", "End to end at 1,000 records/s, acks=all: median", goal=0.75, value="p50")
@ROW("end-to-end-p99", "End to end at 1,000 records/s, acks=all: 99 %", goal=0.5, value="p99")
def end_to_end(bench: Workbench) -> Mapping[str, Contender]:
    servers = shared_servers(bench.context)
    return {name: partial(run, server) for name, server in servers.items()}
