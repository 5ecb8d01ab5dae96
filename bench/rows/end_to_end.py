"""From a producer's call to the arrival at a consumer: 1,000 records a second, two processes, one clock."""

from __future__ import annotations

import multiprocessing
import struct
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import batches
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceResponse
from bench import topics
from bench.apache import APACHE
from bench.paced import percentile, produce_request, wait_until
from bench.produce_load import PRODUCE_VERSION
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

PER_SECOND = 1000
SECONDS = 4
RECORD_BYTES = 100
PATIENCE_S = 30
_TIME = struct.Struct(">q")


def consume(address: tuple[str, int], topic: str, count: int, results: Connection) -> None:
    """Milliseconds from the time in each record to its arrival."""
    found = []
    offset = 0
    with RawConnection(address) as connection:
        results.send([])
        while offset < count:
            request = topics.fetch_request(topic, {0: offset}, partition_bytes=1 << 20)
            answer = connection.ask(request, topics.FETCH_VERSION, FetchResponse)
            now_ns = time.monotonic_ns()
            part = answer.responses[0].partitions[0]
            assert not part.error_code, part.error_code
            for batch in batches(memoryview(part.records or b"")):  # type: ignore[arg-type]  # bytes
                for record in batch.records():
                    assert record.value is not None
                    found.append((now_ns - _TIME.unpack_from(record.value)[0]) / 1e6)
                offset = batch.next_offset
    results.send(sorted(found))


def run(server: Server) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    with topics.topic(server, 1) as topic, RawConnection(server.address) as connection:
        results, remote = context.Pipe(duplex=False)
        count = PER_SECOND * SECONDS
        consumer = context.Process(target=consume, args=(server.address, topic, count, remote))
        consumer.start()
        remote.close()
        results.recv()
        due = time.perf_counter() + 0.1
        for _ in range(count):
            wait_until(due)
            due += 1 / PER_SECOND
            sent_ns = time.monotonic_ns()
            value = _TIME.pack(sent_ns) + bytes(RECORD_BYTES - _TIME.size)
            batch = build([Record(0, time.time_ns() // 1_000_000, None, value)])
            answer = connection.ask(produce_request(topic, batch), PRODUCE_VERSION, ProduceResponse)
            assert not answer.responses[0].partition_responses[0].error_code, answer
        assert results.poll(PATIENCE_S), "not all records arrived"
        found: list[float] = results.recv()
        consumer.join()
    assert len(found) == count, f"{count} records were sent, {len(found)} arrived"
    return {"p50": percentile(found, 0.5), "p99": percentile(found, 0.99)}


ROW = partial(row, unit="ms", higher_is_better=False, floor=1, against=APACHE)


@ROW("end-to-end-p50", "End to end at 1,000 records/s, acks=all: median", goal=0.75, value="p50")
@ROW("end-to-end-p99", "End to end at 1,000 records/s, acks=all: 99 %", goal=0.5, value="p99")
def end_to_end(bench: Workbench) -> Mapping[str, Contender]:
    servers = shared_servers(bench.house)
    return {name: partial(run, server) for name, server in servers.items() if "," not in name}
