"""How long a client waits, at the longest, while another one sends small requests that are made to be slow.

A small request names something many times, or thousands of small requests come at once.  The wait of a client
that asks for nothing but the versions is, at its longest, the longest stall of the loop and one round trip.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection

from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from bench.apache import APACHE
from bench.paced import settle
from bench.registry import Contender, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

SECONDS = 5.0
ATTACKER_PATIENCE_S = 300
BROKER_RESOURCE = 4
# About 100 kB each.
REPEATED_RESOURCES = 8_000
UNKNOWN_GROUPS = 8_000
UNKNOWN_TOPICS = 8_000
BURST = 4_000


def hostile_frames(broker: str) -> list[bytes]:
    """Each is some 100 kB."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=BROKER_RESOURCE, resource_name=broker, configuration_keys=None
    )
    topics = [MetadataRequest.Topic(name=f"none-{one}") for one in range(UNKNOWN_TOPICS)]
    requests = [
        (DescribeConfigsRequest(resources=[resource] * REPEATED_RESOURCES), 1),
        (DescribeGroupsRequest(groups=[f"none-{one}" for one in range(UNKNOWN_GROUPS)]), 4),
        (MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9),
    ]
    frames = [write_request(request, version, 1, "hostile") for request, version in requests]
    return [*frames, write_request(ApiVersionsRequest(), 0, 1, "hostile") * BURST]


def attack(server: Server, broker: str, results: Connection) -> None:
    """One after another, again and again; an attacker reads its answers, to send the next."""
    frames = hostile_frames(broker)
    answers = [1, 1, 1, BURST]
    results.send(True)
    while True:
        for frame, count in zip(frames, answers, strict=True):
            with RawConnection(server.address, ATTACKER_PATIENCE_S) as connection:
                connection.send(frame)
                for _ in range(count):
                    if connection.frame() is None:
                        break  # a server may refuse it; that is an answer, too


def longest_wait_ms(server: Server) -> float:
    context = multiprocessing.get_context("fork")
    results, remote = context.Pipe(duplex=False)
    settle()
    attacker = context.Process(target=attack, args=(server, "1", remote))
    attacker.start()
    results.recv()
    longest = 0.0
    try:
        with RawConnection(server.address, ATTACKER_PATIENCE_S) as connection:
            until = time.perf_counter() + SECONDS
            while (asked := time.perf_counter()) < until:
                connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                longest = max(longest, time.perf_counter() - asked)
        assert attacker.is_alive(), "the attack has failed"
    finally:
        attacker.terminate()
        attacker.join()
    return longest * 1e3


@row(
    "longest-wait-attacked",
    "Longest wait for the versions while small hostile requests run",
    unit="ms",
    higher_is_better=False,
    goal=1,
    floor=2,
    against=APACHE,
    why="One thread serves everybody: what a request may hold it for is bounded by slices of 10 ms.",
)
def attacked(bench: Workbench) -> Mapping[str, Contender]:
    return {name: partial(longest_wait_ms, server) for name, server in shared_servers(bench.context).items()}
