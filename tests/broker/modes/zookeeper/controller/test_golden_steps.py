"""The controller on a real ZooKeeper does, step by step, what Apache Kafka 3.9.1 was seen doing.

The znodes after each step are equal, ids and times aside, and so are the transactions: their operations, data
and guards, and for each topic their order.  Where they differ on purpose, `DIFFERENCES` says why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.runtime.zookeeper.client import (
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    ZooKeeperClient,
)
from tests.broker.modes.zookeeper.controller.nodes import Nodes
from tests.broker.modes.zookeeper.controller.recorded import (
    comparable,
    is_compared,
    recorded_in_order,
)
from tests.broker.modes.zookeeper.controller.steps import Steps
from tests.runtime.zookeeper.drivers import RealDriver

OFFSETS_CONFIG = (
    b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact",'
    b'"segment.bytes":"104857600"}}'
)
OFFSETS_TOPIC = (
    b'{"partitions":{"0":[2,3,1],"1":[3,1,2],"2":[1,2,3]},"topic_id":"xFlSm0MORv6W_sQGzHWEKQ",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
GROWN = (
    'set /brokers/topics/move {"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"…","adding_replicas":{},'
    '"removing_replicas":{},"version":3}'
)
DIFFERENCES = [
    # Apache Kafka adds partitions without its guard, so that a deposed controller may undo a change of the
    # next one; here the growth is guarded by the epoch like every other change of an assignment.
    f"only Apache Kafka: {(GROWN,)}",
    f"only barnabas: {(f'check {paths.CONTROLLER_EPOCH}', GROWN)}",
]
BY_HAND = '{"version":1,"partitions":[{"topic":"move","partition":0,"replicas":[1,2]}]}'
ELECTION = '{"version":1,"partitions":[{"topic":"move","partition":0},{"topic":"orders","partition":1}]}'
_OF_TOPIC = re.compile(
    r"(?P<root>/brokers/topics|/config/topics|/admin/delete_topics)/(?P<topic>[^/]+)(?P<rest>.*)"
)
_NUMBER = re.compile(r"/\d+")
# The heading of the last step, which is not repeated here.
STOP = "stop of all"
# What the first broker and administrators wrote.
OF_OTHERS = {
    (f"create {path} (null)",)
    for path in (
        paths.ADMIN,
        paths.DELETE_TOPICS,
        paths.TOPICS,
        paths.ISR_CHANGES,
        paths.LOG_DIR_EVENTS,
        paths.PRODUCER_IDS,
    )
} | {
    (f"create {paths.REASSIGN_PARTITIONS} {BY_HAND}",),
    (f"create {paths.PREFERRED_ELECTION} {ELECTION}",),
    (f"create {paths.topic('__consumer_offsets')} {comparable(OFFSETS_TOPIC.decode())}",),
}


@pytest.fixture
def nodes(zookeeper_connect: str) -> Iterator[Nodes]:
    driver = RealDriver(zookeeper_connect)
    nodes = Nodes(driver)
    try:
        yield nodes
    finally:
        nodes.end()
        driver.end()


class Recorder:
    """Notes what a client writes."""

    def __init__(self) -> None:
        self.written: list[tuple[str, ...]] = []

    def install(self, client: ZooKeeperClient, monkeypatch: pytest.MonkeyPatch) -> None:
        transact, create, set_data = client.transact, client.create, client.set_data

        def noting_transact(operations):  # type: ignore[no-untyped-def]
            promise = transact(operations)
            promise.then(lambda _: self._note(operations), lambda _: None)
            return promise

        def noting_create(path, data=None, **options):  # type: ignore[no-untyped-def]
            promise = create(path, data, **options)
            promise.then(lambda _: self._note([Create(path, data)]), lambda _: None)
            return promise

        def noting_set(path, data, version=-1):  # type: ignore[no-untyped-def]
            promise = set_data(path, data, version)
            promise.then(lambda _: self._note([SetData(path, data)]), lambda _: None)
            return promise

        monkeypatch.setattr(client, "transact", noting_transact)
        monkeypatch.setattr(client, "create", noting_create)
        monkeypatch.setattr(client, "set_data", noting_set)

    def _note(self, operations: list[Operation]) -> None:
        written = tuple(_text(operation) for operation in operations)
        if is_compared(operations[-1].path):
            self.written.append(written)

    def take(self) -> list[tuple[str, ...]]:
        taken, self.written = self.written, []
        return taken


def _text(operation: Operation) -> str:
    match operation:
        case Check(path):
            return f"check {path}"
        case Delete(path):
            return f"delete {path}"
        case Create(path, data) | SetData(path, data):
            kind = "create" if isinstance(operation, Create) else "set"
            return f"{kind} {path} {comparable(None if data is None else data.decode()) or '(null)'}"


def _orders(transactions: Iterable[tuple[str, ...]]) -> dict[str, list[str]]:
    """In which order a topic gets, changes and loses its znodes; partitions of a topic may take turns."""
    orders: dict[str, list[str]] = {}
    for written in transactions:
        verb, path = written[-1].split(" ")[:2]
        match = _OF_TOPIC.fullmatch(path)
        if match is not None:
            shape = f"{verb} {match['root']}{_NUMBER.sub('/N', match['rest'])}"
            seen = orders.setdefault(match["topic"], [])
            if seen[-1:] != [shape]:
                seen.append(shape)
    return orders


def test_the_life_of_a_cluster(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:  # M-B2 M-B3 M-B4 M-B6
    recorder = Recorder()
    nodes.on_client = lambda client: recorder.install(client, monkeypatch)
    steps = Steps(nodes)
    steps.start(2, 3, 1)
    assert nodes.active().controller_id == 2
    steps.becomes("01-start")

    steps.create("orders", [1, 2, 3], [2, 3, 1], [3, 1, 2], min_insync_replicas="2")
    steps.create("move", [1, 2])
    steps.grow("move", 2, [2, 1])
    steps.becomes("02-topics-created")

    assert steps.take_producer_ids(1) == 0
    assert steps.take_producer_ids(3) == 1000
    # A broker that creates a topic automatically writes it without asking the controller.
    steps.write(paths.topic_config("__consumer_offsets"), OFFSETS_CONFIG)
    steps.write(paths.topic("__consumer_offsets"), OFFSETS_TOPIC)
    steps.becomes("05-internal-topic-and-producer-ids")

    steps.reassign("move", 0, [2, 3])
    steps.becomes("06-reassignment-in-progress")
    steps.reassign("move", 0, [2, 3])
    steps.catch_up("move", 0, [1, 2, 3])
    steps.becomes("07-reassignment-done")

    # Written by hand, as old tools do.
    steps.write(paths.REASSIGN_PARTITIONS, BY_HAND.encode())
    steps.wait_for_replicas("move", 0, (1, 2, 3))
    steps.catch_up("move", 0, [2, 3, 1])
    steps.wait_for_replicas("move", 0, (1, 2))
    steps.stop_gracefully(1)
    steps.becomes("08-broker-1-stopped")

    steps.start(1)
    for name, number, isr in (
        ("__consumer_offsets", 0, [2, 3, 1]),
        ("move", 0, [2, 1]),
        ("move", 1, [2, 1]),
        ("orders", 0, [2, 3, 1]),
        ("orders", 1, [2, 3, 1]),
        ("__consumer_offsets", 2, [2, 3, 1]),
        ("orders", 2, [3, 2, 1]),
        ("__consumer_offsets", 1, [3, 2, 1]),
    ):
        steps.catch_up(name, number, isr)
    steps.becomes("09-leaders-not-preferred")

    steps.elect_preferred("orders", 0)
    steps.write(paths.PREFERRED_ELECTION, ELECTION.encode())
    steps.becomes("10-after-preferred-election")

    steps.kill(3)
    steps.becomes("11-broker-killed")
    steps.start(3)
    for name, number, isr in (
        ("orders", 0, [2, 1, 3]),
        ("__consumer_offsets", 0, [2, 1, 3]),
        ("orders", 1, [2, 1, 3]),
        ("__consumer_offsets", 2, [2, 1, 3]),
        ("orders", 2, [2, 1, 3]),
        ("__consumer_offsets", 1, [2, 1, 3]),
    ):
        steps.catch_up(name, number, isr)
    # The recording had broker 3 as the next controller.
    nodes.driver.call(nodes.controllers[1].election.stop)
    steps.kill(2)
    assert nodes.active().controller_id == 3
    nodes.driver.call(nodes.controllers[1].election.start)
    steps.becomes("12-controller-killed")

    steps.start(2)
    for name, number, isr in (
        ("move", 0, [1, 2]),
        ("move", 1, [1, 2]),
        ("orders", 0, [1, 3, 2]),
        ("orders", 2, [1, 3, 2]),
        ("__consumer_offsets", 1, [1, 3, 2]),
        ("__consumer_offsets", 2, [1, 3, 2]),
        ("__consumer_offsets", 0, [1, 3, 2]),
        ("orders", 1, [1, 3, 2]),
    ):
        steps.catch_up(name, number, isr)
    steps.delete("orders")
    steps.becomes("13-topic-deleted")

    # A replica of a topic is down while it is deleted.
    steps.create("half", [3, 1])
    steps.kill(1)
    steps.delete("half")
    steps.becomes("14-topic-deletion-pending")
    steps.start(1)
    for name, number, isr in (
        ("__consumer_offsets", 0, [3, 2, 1]),
        ("__consumer_offsets", 1, [3, 2, 1]),
        ("move", 0, [2, 1]),
        ("move", 1, [2, 1]),
        ("__consumer_offsets", 2, [3, 2, 1]),
    ):
        steps.catch_up(name, number, isr)
    steps.wait_until_gone("half")
    nodes.driver.call(nodes.controllers[2].election.stop)
    steps.stop_gracefully(3)
    nodes.driver.call(nodes.controllers[2].election.start)
    steps.becomes("15-controller-stopped")
    in_order = [
        written for heading, written in recorded_in_order() if heading != STOP and written not in OF_OTHERS
    ]
    assert _orders(recorder.written) == _orders(in_order)
    recorded, done = Counter(in_order), Counter(recorder.written)
    different = [(f"only barnabas: {each}") for each in done - recorded]
    different += [(f"only Apache Kafka: {each}") for each in recorded - done]
    assert sorted(different) == sorted(DIFFERENCES)
