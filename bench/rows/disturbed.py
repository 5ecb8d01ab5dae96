"""The latency of producers while the broker does other work: a cold replay, stuck readers, a compaction."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bench import topics
from bench.apache import APACHE
from bench.fetch_load import Reader, fill
from bench.paced import pace, percentile, settle
from bench.processes import device_bytes_read
from bench.produce_load import Load, produce_frame, text
from bench.registry import Contender, Workbench, row
from bench.servers import Server, make_servers
from bench.shared import shared_servers
from bench.warming import warm_up
from tools.raw_broker import RawConnection

PER_SECOND = 1000
SECONDS = 5.0
PATIENCE_S = 60
REPLAYED = Load(records=60)
REPLAYED_BATCHES = 2500
STUCK_READERS = 20
SETTLE_S = 0.5
# Batches of 16 KB, the default of producers.
COMPACTED_BATCHES = 20_000
DISTINCT_BATCHES = 1000
RECORDS_PER_BATCH = 150
PIPELINED = 50
TOPIC_RESOURCE = 2
SET = 0
COMPACTION_SETTINGS = {"log.cleaner.backoff.ms": "100"}
SMALL_SEGMENTS = {"segment.bytes": str(32 << 20), "min.cleanable.dirty.ratio": "0.01"}


def percentiles(latencies_ms: list[float]) -> dict[str, float]:
    return {"p99": percentile(latencies_ms, 0.99), "p999": percentile(latencies_ms, 0.999)}


# A cold replay ----------------------------------------------------------------------------------------------


def replay(server: Server, topic: str, batch_bytes: int, results: Connection) -> None:
    """Reads a topic from the device, repeatedly."""
    reader = Reader(server, topic, batch_bytes, REPLAYED, REPLAYED_BATCHES)
    results.send(True)
    while True:
        evict(server.data, topic)
        passes = reader.passes
        while reader.passes < passes + REPLAYED.partitions:
            reader.read()


def evict(data: Path, topic: str) -> None:
    """Drops the topic from the page cache, so that reads go to the device."""
    for path in data.glob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def during_replay(server: Server, replayed: str, batch_bytes: int) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    results, remote = context.Pipe(duplex=False)
    settle()
    evict(server.data, replayed)
    with topics.topic(server, 1) as topic:
        before = device_bytes_read(server.pid)
        reader = context.Process(target=replay, args=(server, replayed, batch_bytes, remote))
        reader.start()
        results.recv()
        latencies_ms = pace(server, topic, PER_SECOND, SECONDS)
        assert reader.is_alive(), "the replay has failed"
        reader.terminate()
        reader.join()
        assert device_bytes_read(server.pid) > before, "nothing was read from the device"
    return percentiles(latencies_ms)


# Stuck readers ----------------------------------------------------------------------------------------------


@contextmanager
def stuck_readers(server: Server, topic: str) -> Iterator[None]:
    """Consumers that fetch much and do not read the response."""
    request = topics.fetch_request(
        topic, dict.fromkeys(range(REPLAYED.partitions), 0), partition_bytes=8 << 20
    )
    frame = write_request(request, topics.FETCH_VERSION, 0, "stuck")
    with ExitStack() as stack:
        for _ in range(STUCK_READERS):
            connection = stack.enter_context(socket.create_connection(server.address, timeout=PATIENCE_S))
            connection.sendall(frame)
        time.sleep(SETTLE_S)  # until their responses fill all buffers
        yield


def with_stuck_readers(server: Server, read: str, _batch_bytes: int) -> dict[str, float]:
    settle()
    with topics.topic(server, 1) as topic, stuck_readers(server, read):
        return percentiles(pace(server, topic, PER_SECOND, SECONDS))


# A compaction -----------------------------------------------------------------------------------------------


def keyed_batches() -> list[bytearray]:
    now_ms = time.time_ns() // 1_000_000
    value = text(100, 1)
    return [
        build(
            [
                Record(number, now_ms, b"key-%d-%d" % (which, number), value)
                for number in range(RECORDS_PER_BATCH)
            ]
        )
        for which in range(DISTINCT_BATCHES)
    ]


def overwrite(server: Server, topic: str, batches: list[bytearray]) -> None:
    """Writes the same keys many times."""
    frames = [produce_frame(topic, 0, batch, 1) for batch in batches]
    some = [b"".join(frames[at : at + PIPELINED]) for at in range(0, len(frames), PIPELINED)]
    with RawConnection(server.address, PATIENCE_S) as connection:
        for _ in range(COMPACTED_BATCHES // len(frames)):
            for joined in some:
                connection.send(joined)
                for _ in range(PIPELINED):
                    assert connection.frame() is not None


def turn_on_compaction(server: Server, topic: str) -> None:
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name="cleanup.policy", config_operation=SET, value="compact"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change]
    )
    with RawConnection(server.address, PATIENCE_S) as connection:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        response = connection.ask(request, 1, IncrementalAlterConfigsResponse)
    assert not response.responses[0].error_code, response


def is_compacted(server: Server, topic: str) -> bool:
    checkpoint = server.data / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text("utf-8")


def during_compaction(server: Server, batches: list[bytearray]) -> dict[str, float]:
    """Measures until the compaction has ended, or SECONDS have passed."""
    with topics.topic(server, 1) as topic, topics.topic(server, 1, SMALL_SEGMENTS) as compacted:
        overwrite(server, compacted, batches)
        turn_on_compaction(server, compacted)
        started = time.perf_counter()
        latencies_ms: list[float] = []
        while time.perf_counter() < started + SECONDS and not is_compacted(server, compacted):
            latencies_ms += pace(server, topic, PER_SECOND, 0.5)
        while not is_compacted(server, compacted):
            assert time.perf_counter() < started + PATIENCE_S, "it was never compacted"
            time.sleep(0.1)
    return percentiles(sorted(latencies_ms))


# The rows ---------------------------------------------------------------------------------------------------

Disturbed = Callable[[Server, str, int], dict[str, float]]


def with_old_records(bench: Workbench, disturbed: Disturbed) -> Mapping[str, Contender]:
    contenders: dict[str, Contender] = {}
    for name, server in shared_servers(bench.context).items():
        topic = bench.stack.enter_context(topics.topic(server, REPLAYED.partitions))
        size = fill(server, topic, REPLAYED, REPLAYED_BATCHES)
        contenders[name] = partial(disturbed, server, topic, size)
    return contenders


ROW = partial(row, unit="ms", higher_is_better=False, goal=0.75, against=APACHE)

WHY_REPLAY = (
    "The replay runs at 2 to 3 GB/s, through the one thread that also serves the producer, and reader, "
    "broker, workers and producer share two cores: a request waits for what is being sent, at most 1 MB "
    "at a time (0.1 ms), and for a core. What helped: such turns, looking for batches only where they are "
    "in memory, and workers that read into the same few pages. Telling the kernel beforehand what will be "
    "read brought the 99th percentile to 0.9 ms, but it then keeps single pages and the replay was three "
    "times slower."
)
WHY_COMPACTION = (
    "The cleaner works in slices on the one thread that also serves the producer; a request that comes "
    "meanwhile waits for the rest of a slice, which is a millisecond, and for what the kernel does to "
    "bring the new segments to stable storage."
)


@ROW("produce-p99-cold-replay", "Produce during a cold replay: 99 %", floor=1.6, value="p99", why=WHY_REPLAY)
@ROW(
    "produce-p999-cold-replay", "Produce during a cold replay: 99.9 %", floor=1, value="p999", why=WHY_REPLAY
)
def cold_replay(bench: Workbench) -> Mapping[str, Contender]:
    return with_old_records(bench, during_replay)


@ROW("produce-p99-stuck-reader", "Produce beside 20 stuck readers: 99 %", floor=1.6, value="p99")
@ROW("produce-p999-stuck-reader", "Produce beside 20 stuck readers: 99.9 %", floor=1, value="p999")
def stuck_reader(bench: Workbench) -> Mapping[str, Contender]:
    return with_old_records(bench, with_stuck_readers)


@ROW(
    "produce-p99-compaction", "Produce during a compaction: 99 %", floor=1.6, value="p99", why=WHY_COMPACTION
)
@ROW(
    "produce-p999-compaction",
    "Produce during a compaction: 99.9 %",
    floor=1,
    value="p999",
    why=WHY_COMPACTION,
)
def compaction(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack, COMPACTION_SETTINGS)
    batches = keyed_batches()
    for server in servers.values():
        server.start()
        warm_up(server)
    return {name: partial(during_compaction, server, batches) for name, server in servers.items()}
