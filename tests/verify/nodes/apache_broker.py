"""One broker of real Apache Kafka in a folder of its own: started, stopped, killed, asked as clients ask."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.batch.records import Header
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.frames import FrameReader
from tools.ports import free_oracle_base

PROBE = Path(__file__).parents[1] / "java" / "FolderProbe.java"
NODE = "broker-1"
PRODUCE_VERSION = 9
ASK_TIMEOUT_S = 30


class Seen(NamedTuple):
    """A record as a consumer of Apache Kafka got it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int


@dataclass
class View:
    """What clients saw of a topic's one partition."""

    start: int = -1
    end: int = -1
    stable_end: int = -1
    uncommitted: list[Seen] = field(default_factory=list)
    committed: list[Seen] = field(default_factory=list)
    timestamp_types: set[str] = field(default_factory=set)
    # Time asked for -> (time, offset) found.
    times: dict[int, tuple[int, int]] = field(default_factory=dict)
    newest: tuple[int, int] = (-1, -1)
    # Producer id -> epoch, last sequence, last timestamp, coordinator epoch, first offset of its transaction.
    producers: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class ApacheBroker:
    """A KRaft node, broker and controller in one."""

    oracle: Callable[..., Any]
    version: str
    home: Path
    port: int

    @property
    def data(self) -> Path:
        return self.home / NODE / "data"

    @property
    def server_log(self) -> Path:
        return self.home / NODE / "server.log"

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port + 1}"

    def _call(self, *args: str) -> str:
        done = self.oracle(self.version, *args)
        assert done.returncode == 0, f"{args} ended with {done.returncode}: {done.stderr[-3000:]}"
        return str(done.stdout)

    def start(self) -> None:
        # The oracle may take a broker for dead while its `java` is being executed; then it is found alive.
        if self.oracle(self.version, "start", "--dir", str(self.home), NODE).returncode != 0:
            self._call("start", "--dir", str(self.home), NODE)

    def stop(self) -> None:
        self._call("stop", "--dir", str(self.home), NODE)

    def kill(self) -> None:
        self._call("stop", "--dir", str(self.home), NODE, "--kill")

    def java(self, program: Path, *args: str) -> str:
        return self._call("java", str(program), *args)

    def create(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        lines = ["\t".join((topic, *(f"{k}={v}" for k, v in sets.items()))) for topic, sets in topics.items()]
        self.java(PROBE, "create", self.bootstrap, self._file("topics.txt", lines))

    def look(self, topics: Mapping[str, Iterable[int]]) -> dict[str, View]:
        """What consumers see of these topics; the numbers are times to ask for."""
        lines = ["\t".join((topic, *map(str, times))) for topic, times in topics.items()]
        return views(self.java(PROBE, "look", self.bootstrap, self._file("look.txt", lines)))

    def abort(self, topic: str, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Have an administrator abort a hanging transaction."""
        self.java(PROBE, "abort", self.bootstrap, topic, str(producer_id), str(epoch), str(coordinator_epoch))

    def _file(self, name: str, lines: Iterable[str]) -> str:
        path = self.home / name
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return str(path)

    def produce(self, topic: str, batch: bytes | bytearray) -> tuple[int, int]:
        """Send one batch as it is; (error code, base offset)."""
        partition = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        reader = FrameReader()
        with socket.create_connection(("localhost", self.port + 1), timeout=ASK_TIMEOUT_S) as connection:
            connection.sendall(write_request(request, PRODUCE_VERSION, 1, "verify"))
            while not (frames := reader.feed(connection.recv(65_536))):
                pass
        _, response = read_response(frames[0], api(0), PRODUCE_VERSION)
        assert isinstance(response, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset


@contextmanager
def apache_broker(
    oracle: Callable[..., Any], version: str, home: Path, settings: Mapping[str, str]
) -> Iterator[ApacheBroker]:
    """A new cluster of one node, running; it is down when this ends."""
    broker = ApacheBroker(oracle, version, home, free_oracle_base())
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    try:
        broker._call("up", "--dir", str(home), "--mode", "kraft", "--port", str(broker.port), *overrides)
        yield broker
    finally:
        oracle(version, "down", "--dir", str(home), "--kill")


def views(output: str) -> dict[str, View]:
    """What the probe printed."""
    found: defaultdict[str, View] = defaultdict(View)
    for line in output.splitlines():
        kind, *fields = line.split("\t")
        if kind == "record":
            isolation, topic, *words = fields
            view = found[topic]
            view.timestamp_types.add(words[2])
            (view.committed if isolation == "read_committed" else view.uncommitted).append(seen(words))
        elif kind == "range":
            isolation, topic, start, end = fields
            view = found[topic]
            view.start = int(start)
            if isolation == "read_committed":
                view.stable_end = int(end)
            else:
                view.end = int(end)
        else:
            topic, *numbers = fields[0], *map(int, fields[1:])
            if kind == "time":
                found[topic].times[numbers[0]] = (numbers[1], numbers[2])
            elif kind == "newest":
                found[topic].newest = (numbers[0], numbers[1])
            else:
                assert kind == "producer", line
                found[topic].producers[numbers[0]] = tuple(numbers[1:])
    return found


def seen(words: list[str]) -> Seen:
    offset, timestamp, _, leader_epoch, key, value, headers = words
    pairs = [header.split("=") for header in headers.split(";") if header]
    return Seen(
        int(offset),
        int(timestamp),
        unhexed(key),
        unhexed(value),
        tuple((bytes.fromhex(name).decode(), unhexed(content)) for name, content in pairs),
        int(leader_epoch),
    )


def unhexed(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)
