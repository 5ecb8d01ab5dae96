"""The latency of producers while a coordinator's shard loads a million committed offsets after a restart.

A single broker loads its shards only when it starts, so both are measured during startup: neither
is warm.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from bench import topics
from bench.apache import APACHE
from bench.paced import pace, settle
from bench.registry import Contender, Workbench, row
from bench.rows.disturbed import PER_SECOND, percentiles
from bench.rows.offset_commits import PATIENCE_S, RETRY_S, fill, is_loaded
from bench.servers import Server, make_servers

PRODUCED_TOPIC = "produced"
SLICE_S = 0.25


def produce_until_loaded(server: Server) -> dict[str, float]:
    settle()
    server.launch()
    await_first_record(server)
    latencies_ms: list[float] = []
    deadline = time.perf_counter() + PATIENCE_S
    while not is_loaded(server):
        assert time.perf_counter() < deadline, "it does not load"
        latencies_ms += pace(server, PRODUCED_TOPIC, PER_SECOND, SLICE_S)
    server.stop()
    assert latencies_ms, "the shard was loaded before the first record was sent"
    return percentiles(sorted(latencies_ms))


def await_first_record(server: Server) -> None:
    """Waits until the topic has a leader again."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        with suppress(OSError, RuntimeError):
            pace(server, PRODUCED_TOPIC, PER_SECOND, 1 / PER_SECOND)
            return
        time.sleep(RETRY_S)
    raise AssertionError("no record was accepted")


ROW = partial(row, unit="ms", higher_is_better=False, goal=0.75, against=APACHE, rounds=3, warm_up=False)


@ROW("produce-p99-shard-load", "Produce while a shard is loaded: 99 %", floor=1.6, value="p99")
@ROW("produce-p999-shard-load", "Produce while a shard is loaded: 99.9 %", floor=1, value="p999")
def shard_load(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack, {"offsets.topic.num.partitions": "1"})
    for server in servers.values():
        server.start()
        topics.create(server, PRODUCED_TOPIC, 1)
        fill(server)
        server.stop()
    return {name: partial(produce_until_loaded, server) for name, server in servers.items()}
