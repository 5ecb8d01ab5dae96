"""10,000 partitions on one broker: made, written to, served again after a stop and after kill -9; memory.

Ours runs under `ulimit -n 4096`; Apache Kafka, which keeps a descriptor for each, has what the machine gives.
A partition counts as served when it has acknowledged a record.  One life of each broker gives the values of
all rows here: it takes some two minutes, so it is lived once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench.apache import APACHE, ORACLE, ApacheServer
from bench.registry import OURS, Contender, Workbench, row
from tools.raw_broker import BrokerProcess, RawConnection

PARTITIONS = int(os.environ.get("BARNABAS_BENCH_PARTITIONS", "10000"))
RECOVERED_PARTITIONS = PARTITIONS // 10
PARTITIONS_PER_TOPIC = 10
TOPICS_PER_REQUEST = 100
OPEN_FILES = 4096
# Requests under way at once.
PIPELINED = 100
PATIENCE_S = 300
CREATE_VERSION = 7
PRODUCE_VERSION = 9


class Server(Protocol):
    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def rss_bytes(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...


def create(server: Server, partitions: int) -> None:
    numbers = range(partitions // PARTITIONS_PER_TOPIC)
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"many-{number}",
            num_partitions=PARTITIONS_PER_TOPIC,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for number in numbers
    ]
    with RawConnection(server.address, PATIENCE_S) as connection:
        for first in range(0, len(topics), TOPICS_PER_REQUEST):
            request = CreateTopicsRequest(
                topics=topics[first : first + TOPICS_PER_REQUEST], timeout_ms=PATIENCE_S * 1000
            )
            answer = connection.ask(request, CREATE_VERSION, CreateTopicsResponse)
            assert not any(topic.error_code for topic in answer.topics), answer


def requests(numbers: Sequence[int]) -> list[ProduceRequest]:
    batch = bytes(build([Record(0, time.time_ns() // 1_000_000, b"key", b"v" * 100)]))
    return [
        ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=f"many-{number // PARTITIONS_PER_TOPIC}",
                    partition_data=[
                        ProduceRequest.PartitionProduceData(
                            index=number % PARTITIONS_PER_TOPIC, records=batch
                        )
                    ],
                )
            ],
        )
        for number in numbers
    ]


def refused(connection: RawConnection, numbers: Sequence[int]) -> Iterator[int]:
    """Write to each; those that are not served yet."""
    for first in range(0, len(numbers), PIPELINED):
        part = numbers[first : first + PIPELINED]
        answers = connection.ask_all(requests(part), PRODUCE_VERSION, ProduceResponse)
        for number, answer in zip(part, answers, strict=True):
            if answer.responses[0].partition_responses[0].error_code:
                yield number


def write_to_all(server: Server, partitions: int) -> None:
    left: Sequence[int] = range(partitions)
    until = time.monotonic() + PATIENCE_S
    with RawConnection(server.address, PATIENCE_S) as connection:
        while left:
            assert time.monotonic() < until, f"{len(left)} partitions are not served after {PATIENCE_S} s"
            left = list(refused(connection, left))


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def make(server: Server, partitions: int) -> None:
    create(server, partitions)
    write_to_all(server, partitions)


def start(server: Server, partitions: int) -> None:
    server.start()
    write_to_all(server, partitions)


def life(server: Server) -> dict[str, float]:
    """From the first start on."""
    server.start()
    values = {"create": seconds(lambda: make(server, PARTITIONS))}
    values["rss"] = server.rss_bytes / 1e6
    values["stop"] = seconds(server.stop)
    values["start"] = seconds(lambda: start(server, PARTITIONS))
    server.kill()
    return values


def crash(server: Server) -> dict[str, float]:
    """A shorter one, that ends in the midst of it."""
    server.start()
    make(server, RECOVERED_PARTITIONS)
    server.kill()
    value = seconds(lambda: start(server, RECOVERED_PARTITIONS))
    server.kill()
    return {"recover": value}


_lived: dict[tuple[str, str], dict[str, float]] = {}


def value_of(bench: Workbench, name: str, kind: str, value: str) -> float:
    """Rows share a life: none is lived twice."""
    if (name, kind) not in _lived:
        folder = bench.scratch / f"{kind}-{len(_lived)}"
        folder.mkdir()
        server: Server
        if name == OURS:
            server = BrokerProcess(folder, open_files=OPEN_FILES)
        else:
            server = apache = ApacheServer(folder)
            bench.stack.callback(apache.end)
        _lived[name, kind] = life(server) if kind == "life" else crash(server)
    return _lived[name, kind][value]


def contenders(bench: Workbench, kind: str, value: str) -> Mapping[str, Contender]:
    names = [OURS, APACHE] if ORACLE.exists() else [OURS]
    return {name: partial(value_of, bench, name, kind, value) for name in names}


@row(
    "many-partitions-create",
    f"{PARTITIONS:,} partitions: create them, until each has taken a record",
    unit="s",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=1,
)
def creating(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "life", "create")


@row(
    "many-partitions-start",
    f"{PARTITIONS:,} partitions: start after a clean stop, until each has taken a record",
    unit="s",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=1,
)
def starting(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "life", "start")


@row(
    "many-partitions-stop",
    f"{PARTITIONS:,} partitions: stop",
    unit="s",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=1,
)
def stopping(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "life", "stop")


@row(
    "many-partitions-rss",
    f"{PARTITIONS:,} partitions: memory",
    unit="MB",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=1,
)
def memory(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "life", "rss")


@row(
    "many-partitions-recover",
    f"{RECOVERED_PARTITIONS:,} partitions: start after kill -9, until each has taken a record",
    unit="s",
    higher_is_better=False,
    goal=0.5,
    floor=1,
    against=APACHE,
    rounds=1,
)
def recovering(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, "crash", "recover")
