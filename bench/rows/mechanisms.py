"""What makes a log fast, each with and without it: batches, compression, the page cache, sequential writes.

Zero copy has its comparison in the rows of fetch.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from functools import partial

from barnabas.batch.compression import Codec
from bench import topics
from bench.fetch_load import Reader, fill
from bench.produce_load import Load, produce
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.disturbed import evict
from bench.servers import Server
from bench.shared import shared_servers

SECONDS = 3.0
# Sent and read by these rows: 1 KiB records in batches of 16 KB, as producers send them by default.
LOAD = Load()
READ_BATCHES = 3_000
WRITE_BYTES, WRITES = 16 << 10, 16_000


def ours(bench: Workbench) -> Server:
    return shared_servers(bench.context)[OURS]


# Batches and compression ------------------------------------------------------------------------------------

ALONE = f"{OURS}, a record at a time"
UNCOMPRESSED = f"{OURS}, not compressed"


def send(server: Server, load: Load) -> dict[str, float]:
    with topics.topic(server, load.partitions) as topic:
        done = produce(server, topic, load, SECONDS)
        stored = sum(file.stat().st_size for file in server.data.glob(f"{topic}-*/*.log"))
    return {"records": done.records / done.seconds, "stored": stored / done.payload_bytes}


@row(
    "with-batches",
    "Produce records of 1 KiB in batches of 15",
    unit="records/s",
    goal=2,
    against=ALONE,
    value="records",
)
def batching(bench: Workbench) -> Mapping[str, Contender]:
    server = ours(bench)
    return {OURS: partial(send, server, LOAD), ALONE: partial(send, server, Load(records=1))}


@row(
    "with-compression-disk",
    "Bytes on disk for a byte of records like log lines, compressed by lz4",
    unit="bytes",
    higher_is_better=False,
    goal=0.5,
    against=UNCOMPRESSED,
    value="stored",
)
@row(
    "with-compression",
    "Produce records like log lines in batches compressed by lz4",
    unit="records/s",
    against=UNCOMPRESSED,
    value="records",
)
def compression(bench: Workbench) -> Mapping[str, Contender]:
    server = ours(bench)
    return {OURS: partial(send, server, Load(codec=Codec.LZ4)), UNCOMPRESSED: partial(send, server, LOAD)}


# The page cache ---------------------------------------------------------------------------------------------

COLD = f"{OURS}, from the device"


@row("with-page-cache", "Fetch records that were written before", unit="MB/s", goal=1.5, against=COLD)
def page_cache(bench: Workbench) -> Mapping[str, Contender]:
    server = ours(bench)
    topic = bench.stack.enter_context(topics.topic(server, LOAD.partitions))
    size = fill(server, topic, LOAD, READ_BATCHES)
    reader = Reader(server, topic, size, LOAD, READ_BATCHES)
    bench.stack.enter_context(reader.socket)

    def read(*, cold: bool) -> float:
        """One pass over all partitions."""
        if cold:
            evict(server.data, topic)
        passes, before = reader.passes, reader.bytes_read
        started = time.perf_counter()
        while reader.passes < passes + LOAD.partitions:
            reader.read()
        return (reader.bytes_read - before) / 1e6 / (time.perf_counter() - started)

    return {OURS: partial(read, cold=False), COLD: partial(read, cold=True)}


# Sequential writes ------------------------------------------------------------------------------------------

SCATTERED = "the same writes at random places"


@row(
    "with-sequential-io",
    "Write 260 MB in pieces of 16 KB to a file, and sync",
    unit="MB/s",
    goal=1.2,
    against=SCATTERED,
)
def sequential_writes(bench: Workbench) -> Mapping[str, Contender]:
    piece = os.urandom(WRITE_BYTES)
    places = [number * WRITE_BYTES for number in range(WRITES)]
    scattered = random.Random(1).sample(places, WRITES)

    def write(order: list[int]) -> float:
        path = bench.scratch / "file"
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        try:
            started = time.perf_counter()
            for place in order:
                os.pwrite(descriptor, piece, place)
            os.fsync(descriptor)
            return WRITES * WRITE_BYTES / 1e6 / (time.perf_counter() - started)
        finally:
            os.close(descriptor)
            path.unlink()

    return {"in sequence, as a log is written": partial(write, places), SCATTERED: partial(write, scattered)}
