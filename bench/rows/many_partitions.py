"""10,000 partitions on one broker: created, written to, served after a restart and after kill -9; memory.

barnabas runs with `ulimit -n 4096`; Apache Kafka, which keeps a descriptor for each, without such a limit.
A partition counts as served when it has acknowledged a record.  One run of each broker gives the values of
several rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench.apache import APACHE
from bench.registry import Contender, Workbench, row
from bench.servers import Server, make_servers
from tools.raw_broker import RawConnection

PARTITIONS = int(os.environ.get("BARNABAS_BENCH_PARTITIONS", "10000"))
RECOVERED_PARTITIONS = PARTITIONS // 10
PARTITIONS_PER_TOPIC = 10
TOPICS_PER_REQUEST = 100
OPEN_FILES = 4096
# Requests in flight.
PIPELINED = 100
PATIENCE_S = 300
CREATE_VERSION = 7
PRODUCE_VERSION = 9


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
            response = connection.ask(request, CREATE_VERSION, CreateTopicsResponse)
            assert not any(topic.error_code for topic in response.topics), response


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
    """Writes to each partition; yields those that are not served yet."""
    for first in range(0, len(numbers), PIPELINED):
        part = numbers[first : first + PIPELINED]
        responses = connection.ask_all(requests(part), PRODUCE_VERSION, ProduceResponse)
        for number, response in zip(part, responses, strict=True):
            if response.responses[0].partition_responses[0].error_code:
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
    """From the first start."""
    server.start()
    values = {"create": seconds(lambda: make(server, PARTITIONS))}
    values["rss"] = server.rss_bytes / 1e6
    values["stop"] = seconds(server.stop)
    values["start"] = seconds(lambda: start(server, PARTITIONS))
    server.kill()
    return values


def crash(server: Server) -> dict[str, float]:
    """A shorter run that ends with kill -9."""
    server.start()
    make(server, RECOVERED_PARTITIONS)
    server.kill()
    value = seconds(lambda: start(server, RECOVERED_PARTITIONS))
    server.kill()
    return {"recover": value}


def contenders(bench: Workbench, live: Callable[[Server], dict[str, float]]) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack, open_files=OPEN_FILES)
    return {name: partial(live, server) for name, server in servers.items()}


WHY_CREATE = (
    "As with a thousand topics: most of it is the file system's, which makes ten thousand folders and forty "
    "thousand files, the same for both."
)
WHY_STOP = (
    "Ten thousand logs that were written to are brought to stable storage, which is the device's time and "
    "the same for both; it was 6 s in another run on the same machine.  One round."
)
ROW = partial(
    row, unit="s", higher_is_better=False, goal=0.5, floor=1, against=APACHE, rounds=1, warm_up=False
)


@ROW(
    "many-partitions-create",
    f"{PARTITIONS:,} partitions: create them, until each has taken a record",
    value="create",
    why=WHY_CREATE,
)
@ROW("many-partitions-rss", f"{PARTITIONS:,} partitions: memory", unit="MB", value="rss")
@ROW("many-partitions-stop", f"{PARTITIONS:,} partitions: stop", value="stop", why=WHY_STOP)
@ROW(
    "many-partitions-start",
    f"{PARTITIONS:,} partitions: start after a clean stop, until each has taken a record",
    value="start",
)
def living(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, life)


@ROW(
    "many-partitions-recover",
    f"{RECOVERED_PARTITIONS:,} partitions: start after kill -9, until each has taken a record",
    value="recover",
)
def recovering(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, crash)
