"""A broker restarts with its data: time to the first acknowledged record; then memory and CPU when idle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from barnabas.protocol.messages.produce import ProduceResponse
from bench import topics
from bench.apache import APACHE
from bench.paced import RECORD, produce_request
from bench.produce_load import PRODUCE_VERSION, client_batch
from bench.registry import Contender, Workbench, row
from bench.servers import Server, make_servers
from tools.raw_broker import RawConnection

TOPIC = "first"
PATIENCE_S = 60
SETTLE_S = 3.0
IDLE_S = 6.0
RETRY_S = 0.002


def is_acknowledged(server: Server) -> bool:
    try:
        with RawConnection(server.address, PATIENCE_S) as connection:
            request = produce_request(TOPIC, client_batch(RECORD))
            response = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
    except OSError:
        return False
    return not response.responses[0].partition_responses[0].error_code


def run(server: Server) -> dict[str, float]:
    started = time.perf_counter()
    server.launch()
    while not is_acknowledged(server):
        assert time.perf_counter() - started < PATIENCE_S, "the broker does not respond"
        time.sleep(RETRY_S)
    first_s = time.perf_counter() - started
    time.sleep(SETTLE_S)
    rss = server.rss_bytes
    cpu_before = server.cpu_seconds
    time.sleep(IDLE_S)
    idle_cpu = 100 * (server.cpu_seconds - cpu_before) / IDLE_S
    server.stop()
    return {"first": first_s, "rss": rss / 1e6, "cpu": idle_cpu}


ROW = partial(row, higher_is_better=False, against=APACHE)


@ROW(
    "start",
    "From the start to the first acknowledged record",
    unit="s",
    goal=0.1,
    floor=0.15,
    value="first",
    why=(
        "Two thirds of it are imports: a broker that does nothing needs 0.18 s for them, from compiled "
        "files, after what is not needed at once was put off. Then come the log, the metadata log with "
        "its syncs, and the registration, one after the other."
    ),
)
@ROW("idle-rss", "Memory of an idle broker", unit="MB", goal=0.12, floor=0.2, value="rss")
@ROW("idle-cpu", "Processor of an idle broker", unit="%", own_goal=1, own_floor=2, value="cpu")
def starting(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack)
    for server in servers.values():
        server.start()
        topics.create(server, TOPIC, 1)
        server.stop()
    return {name: partial(run, server) for name, server in servers.items()}
