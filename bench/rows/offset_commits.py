"""Committed offsets: written by pipelined requests; and a million of them loaded after a restart."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from bench import topics
from bench.apache import APACHE
from bench.paced import settle
from bench.registry import Contender, Workbench, row
from bench.rows.group_members import await_coordinator
from bench.servers import Server, make_servers
from bench.shared import shared_servers
from tools.raw_broker import RawConnection

COMMITS = 20_000
CONNECTIONS = 4
WINDOW = 50
GROUPS = 100
PARTITIONS = 4
LOADED_GROUPS = 10_000
LOADED_PARTITIONS = 100
LOADED_TOPIC = "loaded"
PATIENCE_S = 120
RETRY_S = 0.002
COMMIT_VERSION, FETCH_VERSION = 9, 9
_runs = itertools.count()


def commit_request(group: str, topic: str, partitions: range, offset: int) -> OffsetCommitRequest:
    """As a consumer without group membership."""
    partition_type = OffsetCommitRequest.Partition
    rows = [
        partition_type(partition_index=p, committed_offset=offset, committed_metadata="") for p in partitions
    ]
    return OffsetCommitRequest(
        group_id=group, member_id="", topics=[OffsetCommitRequest.Topic(name=topic, partitions=rows)]
    )


def ensure_taken(frames: list[bytes]) -> int:
    """The number of offsets committed according to the responses; all must be."""
    count = 0
    for frame in frames:
        _, response = read_response(frame, api(8), COMMIT_VERSION)
        assert isinstance(response, OffsetCommitResponse)
        for partition in response.topics[0].partitions:
            assert not partition.error_code, ErrorCode(partition.error_code).name
            count += 1
    return count


def frame_of(connection: RawConnection) -> bytes:
    frame = connection.frame()
    assert frame is not None, "the server closed the connection"
    return frame


def exchange(connections: list[RawConnection], requests: list[list[bytes]]) -> list[bytes]:
    """Each connection sends its own requests, a window at a time; returns all responses."""
    responses: list[bytes] = []
    for start in range(0, len(requests[0]), WINDOW):
        for connection, own in zip(connections, requests, strict=True):
            connection.send(b"".join(own[start : start + WINDOW]))
        for connection, own in zip(connections, requests, strict=True):
            responses += [frame_of(connection) for _ in own[start : start + WINDOW]]
    return responses


def commit(server: Server) -> dict[str, float]:
    settle()
    await_coordinator(server)
    name = f"bench-{next(_runs)}"
    with topics.topic(server, PARTITIONS) as topic:
        requests = [
            [
                write_request(
                    commit_request(
                        f"{name}-{number % GROUPS}",
                        topic,
                        range(number % PARTITIONS, number % PARTITIONS + 1),
                        number,
                    ),
                    COMMIT_VERSION,
                    number,
                    "bench",
                )
                for number in range(first, COMMITS, CONNECTIONS)
            ]
            for first in range(CONNECTIONS)
        ]
        connections = [RawConnection(server.address, PATIENCE_S) for _ in range(CONNECTIONS)]
        cpu_s = server.cpu_seconds
        start = time.perf_counter()
        responses = exchange(connections, requests)
        seconds = time.perf_counter() - start
        cpu_s = server.cpu_seconds - cpu_s
        for connection in connections:
            connection.socket.close()
        assert ensure_taken(responses) == COMMITS
    return {"per second": COMMITS / seconds, "cpu": cpu_s * 1000}


# Loading ----------------------------------------------------------------------------------------------------


def fill(server: Server) -> None:
    """All in one partition of __consumer_offsets."""
    await_coordinator(server)
    topics.create(server, LOADED_TOPIC, LOADED_PARTITIONS)
    with RawConnection(server.address, PATIENCE_S) as connection:
        requests = [
            write_request(
                commit_request(f"group-{number}", LOADED_TOPIC, range(LOADED_PARTITIONS), number),
                COMMIT_VERSION,
                number,
                "bench",
            )
            for number in range(LOADED_GROUPS)
        ]
        assert ensure_taken(exchange([connection], [requests])) == LOADED_GROUPS * LOADED_PARTITIONS


def is_loaded(server: Server) -> bool:
    """Whether the last group can be read."""
    group = OffsetFetchRequest.Group(group_id=f"group-{LOADED_GROUPS - 1}", topics=None)
    with suppress(OSError), RawConnection(server.address, PATIENCE_S) as connection:
        response = connection.ask(OffsetFetchRequest(groups=[group]), FETCH_VERSION, OffsetFetchResponse)
        [group_response] = response.groups
        if group_response.error_code:
            return False
        offsets = [
            partition.committed_offset for topic in group_response.topics for partition in topic.partitions
        ]
        assert not offsets or offsets == [LOADED_GROUPS - 1] * LOADED_PARTITIONS
        return True
    return False


def seconds_until_loaded(server: Server) -> float:
    start = time.perf_counter()
    server.launch()
    while not is_loaded(server):
        assert time.perf_counter() - start < PATIENCE_S, "it does not load"
        time.sleep(RETRY_S)
    seconds = time.perf_counter() - start
    server.stop()
    return seconds


def load(empty: Server, full: Server) -> float:
    """The additional startup time with a million offsets."""
    settle()
    return max(seconds_until_loaded(full) - seconds_until_loaded(empty), 0.001)


ROW = partial(row, against=APACHE, goal=1)


@ROW("offset-commits", "Commits of one offset, pipelined", unit="commits/s", floor=0.7, value="per second")
@ROW(
    "offset-commits-cpu",
    "20,000 commits of one offset, pipelined: CPU of the broker",
    unit="ms",
    higher_is_better=False,
    floor=1 / 0.7,
    value="cpu",
)
def offset_commits(bench: Workbench) -> Mapping[str, Contender]:
    servers = shared_servers(bench.context)
    return {name: partial(commit, server) for name, server in servers.items()}


@ROW(
    "offset-loading",
    "Loading a million committed offsets of one shard after a start",
    unit="s",
    higher_is_better=False,
    floor=1 / 0.7,
    rounds=3,
    warm_up=False,
)
def offset_loading(bench: Workbench) -> Mapping[str, Contender]:
    one_shard = {"offsets.topic.num.partitions": "1"}
    empty = make_servers(bench.scratch / "empty", bench.stack, one_shard)
    full = make_servers(bench.scratch / "full", bench.stack, one_shard)
    for name in full:
        for server, prepare in ((empty[name], await_coordinator), (full[name], fill)):
            server.start()
            prepare(server)
            server.stop()
    return {name: partial(load, empty[name], full[name]) for name in full}
