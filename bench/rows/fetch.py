"""Fetch from one broker, from the page cache; barnabas also without zero copy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import topics
from bench.apache import APACHE
from bench.fetch_load import Reader, fetch, fill
from bench.produce_load import Load
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_plain_server, shared_servers

SECONDS = 3.0
PARTITION_TOTAL_BYTES = 50_000_000

WHY = (
    "Both brokers have the kernel send from the page cache (sendfile), and seven tenths of our processor "
    "time is the kernel's; much of the rest of a round is the consumer, which copies and hashes all it "
    "gets. With one that had the kernel drop what arrives, both brokers were about equally fast (0.9 × "
    "with 16 KB, 1 × with 1 MB, at 0.23 and 0.2 s of processor time a gigabyte): there is little left that "
    "a broker could save. Pacing (BBR) is off on the loopback, where it made fetches of 1 MB 2.5 times "
    "slower."
)


def contenders(bench: Workbench, load: Load) -> Mapping[str, Contender]:
    ours_and_theirs = shared_servers(bench.context)
    servers = ours_and_theirs | shared_plain_server(bench.context)
    return {name: prepare(bench, server, load) for name, server in servers.items()}


def prepare(bench: Workbench, server: Server, load: Load) -> Contender:
    topic = bench.stack.enter_context(topics.topic(server, load.partitions))
    batches = PARTITION_TOTAL_BYTES // (load.records * load.record_bytes)
    size = fill(server, topic, load, batches)
    reader = Reader(server, topic, size, load, batches)
    bench.stack.enter_context(reader.socket)

    def run() -> float:
        passes = reader.passes
        value = fetch(reader, SECONDS)
        assert reader.passes > passes, "no partition was read to its end, so none was compared"
        return value

    return run


@row("fetch-16k", "Fetch, batches of 16 KB", unit="MB/s", goal=1.5, floor=1.0, against=APACHE, why=WHY)
def batches_of_16_kb(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load())


@row("fetch-1m", "Fetch, batches of 1 MB", unit="MB/s", goal=2, floor=1.2, against=APACHE, why=WHY)
def batches_of_1_mb(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Load(records=1000))


row(
    "fetch-one-record",
    "Fetch, batches of one record of 1 KiB",
    unit="MB/s",
    goal=1.5,
    floor=1.0,
    against=APACHE,
    why=WHY,
)(partial(contenders, load=Load(records=1)))
