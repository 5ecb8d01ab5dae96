"""One group with members of three clients: ours, librdkafka and Apache Kafka's own, on both brokers.

They share the partitions, take over what others leave, and between them read each record once.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from barnabas.client import Consumer, Producer
from barnabas.client import errors as client_errors
from tests.client.live.conftest import SETTINGS
from tests.client.live.work import make_topic
from tests.verify.conftest import ORACLE
from tests.verify.nodes.broker_node import VERSION
from tools.ports import free_oracle_base
from tools.raw_broker import BrokerProcess

JAVA_MEMBER = Path(__file__).parents[1] / "java" / "GroupMember.java"
PARTITIONS = 6
PATIENCE_S = 180
CLASSIC = {"heartbeat.interval.ms": "200", "session.timeout.ms": "10000"}


@pytest.fixture(scope="module", params=["apache", "ours"])
def bootstrap(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    home = tmp_path_factory.mktemp("groups")
    if request.param == "ours":
        overrides = [word for name, value in SETTINGS.items() for word in ("--override", f"{name}={value}")]
        with BrokerProcess(home, *overrides) as broker:
            yield f"{broker.address[0]}:{broker.address[1]}"
        assert not broker.faults
        return
    base = free_oracle_base()
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    place = ("--dir", str(home / "apache"), "--mode", "kraft", "--port", str(base))
    done = oracle(VERSION, "up", *place, *given)
    assert done.returncode == 0, done.stderr
    yield f"localhost:{base + 1}"
    oracle(VERSION, "down", "--dir", str(home / "apache"), "--kill")


class Member:
    """What each kind of member reports."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.values: Counter[str] = Counter()


class OurMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
        super().__init__()
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, **options})
        self._consumer.subscribe([topic])
        self._task = asyncio.ensure_future(self._poll())

    async def _poll(self) -> None:
        while True:
            try:
                for record in await self._consumer.poll(100):
                    assert isinstance(record.value, bytes)
                    self.values[record.value.decode()] += 1
            except client_errors.RetriableError:
                continue
            self.numbers = {one.partition for one in self._consumer.assignment()}

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._consumer.close()
        self.numbers = set()


class LibrdkafkaMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
        super().__init__()
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer({**settings, **options, "log_level": 0})
        self._consumer.subscribe([topic])
        self._is_over = False
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_over:
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values[(message.value() or b"").decode()] += 1
            self.numbers = {one.partition for one in self._consumer.assignment()}
        self._consumer.close()
        self.numbers = set()

    async def close(self) -> None:
        self._is_over = True
        await asyncio.to_thread(self._thread.join)


class JavaMember(Member):
    def __init__(self, bootstrap: str, group: str, topic: str, options: dict[str, str]) -> None:
        super().__init__()
        given = [f"{name}={value}" for name, value in options.items()]
        command = [str(ORACLE), "-k", VERSION, "java", str(JAVA_MEMBER), bootstrap, group, topic, *given]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "read":
                self.values[rest] += 1
            elif word == "has":
                self.numbers = {int(number) for number in re.findall(r"\d+", rest)}

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()
        await asyncio.to_thread(self._thread.join)
        assert self._process.wait() == 0
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.numbers = set()


async def until(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it did not come about: {what()}") from None


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("range", {"partition.assignment.strategy": "range", **CLASSIC}),
        ("cooperative-sticky", {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC}),
        ("consumer", {"group.protocol": "consumer"}),
    ],
)
def test_three_clients_share_a_group(bootstrap: str, protocol: str, options: dict[str, str]) -> None:
    # M-A6, M-G1, M-G3
    asyncio.run(share(bootstrap, f"shared-{protocol}", options))


def for_java(options: dict[str, str]) -> dict[str, str]:
    """Apache Kafka's client wants assignors by the names of their classes."""
    names = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
    key = "partition.assignment.strategy"
    if key not in options:
        return options
    return {**options, key: f"org.apache.kafka.clients.consumer.{names[options[key]]}"}


async def share(bootstrap: str, topic: str, options: dict[str, str]) -> None:
    await make_topic(bootstrap, topic, PARTITIONS)
    place = (bootstrap, f"group-{topic}", topic)
    members: list[Member] = []

    def sizes() -> list[int]:
        return [len(member.numbers) for member in members]

    def has_all() -> bool:
        return set().union(*(member.numbers for member in members)) == set(range(PARTITIONS))

    def read() -> Counter[str]:
        return sum((member.values for member in members), Counter())

    ours = OurMember(*place, options)
    members.append(ours)
    await until(lambda: sizes() == [6] and has_all(), sizes)
    rdkafka = LibrdkafkaMember(*place, options)
    members.append(rdkafka)
    await until(lambda: sizes() == [3, 3] and has_all(), sizes)
    java = JavaMember(*place, for_java(options))
    members.append(java)
    await until(lambda: sizes() == [2, 2, 2] and has_all(), sizes)
    await send(bootstrap, topic, range(600))
    await until(lambda: len(read()) == 600, lambda: len(read()))
    assert all(len(member.values) == 200 for member in members), "each read what it had"
    await java.close()
    await until(lambda: sizes() == [3, 3, 0] and has_all(), sizes)
    await rdkafka.close()
    await until(lambda: sizes() == [6, 0, 0], sizes)
    await send(bootstrap, topic, range(600, 700))
    await until(lambda: len(read()) == 700, lambda: len(read()))
    assert set(read().values()) == {1}, "each record was read once: members that left had committed"
    await ours.close()


async def send(bootstrap: str, topic: str, numbers: range) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
