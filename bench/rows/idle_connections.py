"""10,000 idle and 1,000 half-open connections: their memory, and the latency of a new client.

Idle connections have sent one request, as clients do; half-open ones have sent the beginning of a
request.  There are fewer if this process may not open as many.
"""

from __future__ import annotations

import resource
import socket
import statistics
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.disk.open_files import raise_limit
from bench.apache import APACHE
from bench.registry import Contender, Workbench, row
from bench.servers import Server, make_servers
from tools.raw_broker import RawConnection

IDLE = 10_000
HALF_OPEN = 1_000
# Files that this process needs besides the connections.
SPARE_DESCRIPTORS = 500
NEW_CLIENTS = 50
PATIENCE_S = 120
METADATA_VERSION = 12
HALF_A_REQUEST = struct.pack(">i", 100) + b"\0"


def how_many() -> tuple[int, int]:
    """The number of idle and half-open connections, within the limits of both processes."""
    available = raise_limit() - SPARE_DESCRIPTORS
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # The broker reserves a share for its files.
    available = min(available, (hard if hard > 0 else available) - 2048)
    half_open = min(HALF_OPEN, available // 10)
    return min(IDLE, available - half_open), half_open


def open_one(address: tuple[str, int], data: bytes) -> socket.socket:
    sock = socket.create_connection(address, timeout=PATIENCE_S)
    sock.sendall(data)
    return sock


def serve_new_client(address: tuple[str, int]) -> float:
    """Milliseconds from connecting to the end of the second response."""
    started = time.perf_counter()
    with RawConnection(address, PATIENCE_S) as connection:
        connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        everything = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        connection.ask(everything, METADATA_VERSION, MetadataResponse)
    return 1000 * (time.perf_counter() - started)


def crowd(server: Server) -> dict[str, float]:
    server.start()
    for _ in range(NEW_CLIENTS):
        serve_new_client(server.address)
    before = server.rss_bytes
    idle, half_open = how_many()
    hello = write_request(ApiVersionsRequest(), 0, 1, "idle")
    with ExitStack() as stack:
        connections = [stack.enter_context(open_one(server.address, hello)) for _ in range(idle)]
        for connection in connections:
            assert connection.recv(1 << 16), "an idle client was disconnected"
        for _ in range(half_open):
            stack.enter_context(open_one(server.address, HALF_A_REQUEST))
        waits = [serve_new_client(server.address) for _ in range(NEW_CLIENTS)]
        grown = server.rss_bytes - before
    server.kill()
    return {"new": statistics.median(waits), "kb": grown / 1000 / (idle + half_open)}


ROW = partial(row, higher_is_better=False, goal=1, floor=2, against=APACHE, rounds=1, warm_up=False)


@ROW(
    "idle-connections-new-client",
    "10,000 idle and 1,000 half-open connections: a new client connects and asks twice",
    unit="ms",
    value="new",
)
@ROW(
    "idle-connections-memory",
    "10,000 idle and 1,000 half-open connections: memory of each",
    unit="KB",
    value="kb",
)
def crowds(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack)
    return {name: partial(crowd, server) for name, server in servers.items()}
